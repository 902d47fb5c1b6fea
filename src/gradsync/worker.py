"""One rank: ``python -m gradsync.worker FOLDER`` builds the parts from the config, trains, writes its record.

Given several folders it does one run after another in the same processes, until one fails.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import psutil
import torch
from torch import nn

from gradsync import config as configs
from gradsync import data, models, strategies, world
from gradsync.comm import Comm, LostPeer, TorchComm, mpi
from gradsync.comm.clock import measure_offset
from gradsync.config import RunConfig, parse_injection
from gradsync.data.loader import Loader
from gradsync.data.rows import map_rows
from gradsync.errors import InputError
from gradsync.meter.host import HostSampler
from gradsync.meter.network import choose_counter
from gradsync.meter.recorder import Recorder, Stopwatch
from gradsync.parent import end_with_parent
from gradsync.plugin import users_traceback
from gradsync.record import RankLog, log_file, model_file
from gradsync.train import checkpoint, optim
from gradsync.train.graph import write_graph
from gradsync.train.precision import PRECISIONS
from gradsync.train.trainer import LossNotFinite, Plan, train

TEST_BATCH = 256
EXPECTED_ERRORS = (InputError, LossNotFinite)  # a sentence says it all


def main() -> int:
    end_with_parent(signal.SIGKILL)
    here = world.discover()
    folders = [Path(folder) for folder in sys.argv[1:]]
    for number, folder in enumerate(folders):
        if number or here.launcher not in world.REDIRECTING:
            print_into(folder, here.rank)
        if not run_recorded(folder, here):
            return 1  # without leaving the group, which would wait for peers that will never come
    world.leave()
    return 0


def print_into(folder: Path, rank: int) -> None:
    """From now on what this process prints goes into the logs of another run."""
    (folder / "logs").mkdir(exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    for stream, descriptor in (("out", sys.stdout.fileno()), ("err", sys.stderr.fileno())):
        with open(log_file(folder, rank, stream), "ab") as file:
            os.dup2(file.fileno(), descriptor)


def run_recorded(folder: Path, here: world.World) -> bool:
    """One run. If it fails, its record tells why."""
    log = RankLog(folder, here.rank)
    try:
        config = configs.load(folder / "config.json").resolved()
        if config.transport == "mpi":
            mpi.check_world(config.processes, started_by="srun" if here.launcher == "slurm" else "mpiexec")
        run(config, folder, here, log)
    except Exception as error:
        trace = "" if isinstance(error, EXPECTED_ERRORS) else users_traceback(error)
        print(trace or error, file=sys.stderr, flush=True)
        log.write(
            "error",
            type=type(error).__name__,
            message=str(error),
            traceback=trace,
            lost_peer=is_lost_peer(error),
            time=time.time(),
        )
        return False
    finally:
        log.close()
    return True


def run(config: RunConfig, folder: Path, here: world.World, log: RankLog) -> None:
    assert config.strategy and config.batch_size and config.threads
    torch.set_num_threads(config.threads)
    device = world.choose_device(config.device, here)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # stamps are taken in the stream of the current one
    precision = PRECISIONS[config.precision]

    begin = time.monotonic()
    samples = load_data(config, here)
    read_seconds = time.monotonic() - begin
    model, layout = build_model(config, samples, here.rank)
    model.to(device, precision.storage).to(memory_format=layout)  # type: ignore[call-overload]

    load = partial(
        Loader, dtype=precision.storage, layout=layout, pin=device.type == "cuda", processes=config.loader_processes
    )
    loader = load(
        samples.train,
        batch_size=config.batch_size,
        seed=config.seed,
        rank=here.rank,
        size=config.trainers,
        augment=config.augment,
        reshuffle=config.reshuffle,
    )
    if not loader.steps_per_epoch:
        raise InputError(f"{config.trainers} workers cannot share {len(samples.train)} training samples.")
    steps = config.steps or (config.epochs or 1) * loader.steps_per_epoch
    updates_per_step = config.trainers if strategies.find(config.strategy).asynchronous else 1

    comm = join(config, here, device)
    optimizer = optim.make(config, model, steps * updates_per_step, loader.steps_per_epoch * updates_per_step)
    roles = strategies.Roles(config.workers or 1, config.server_ranks, steps)
    sync = strategies.construct(config.strategy, comm, config.buffers, config.options, roles)
    sync.start_same = config.start == "same"
    strategies.attached(sync, model, optimizer, config.sync_bn)

    if config.tensorboard and here.rank == 0:
        example = torch.zeros(1, *samples.shape, dtype=precision.storage, device=device)
        write_graph(model, example, folder)
    test = None
    if config.eval:
        # Ranks that hold different models each test on everything; equal ones share the work.
        rank, size = (0, 1) if sync.replicas_differ else (here.rank, config.trainers)
        test = load(samples.test, batch_size=TEST_BATCH, rank=rank, size=size)

    # After the strategy has sent its first messages: the sockets to be counted are there.
    counted = config.measure and comm.transport == "torch"
    counter = choose_counter(here.interface, here.local_size) if counted else None
    clock = measure_offset(comm, device) if config.measure else None
    log.write(
        "start",
        **start_facts(config, here, device),
        **strategy_facts(sync),
        read_seconds=read_seconds,
        network_source=counter.source if counter else None,
        steps=steps,
        steps_per_epoch=loader.steps_per_epoch,
    )
    if clock:
        log.write("clock", **asdict(clock))
    sampler = HostSampler(log, counter, device) if config.measure else None

    def note(kind: str, **values: Any) -> None:
        log.write(kind, **values)
        if sampler and kind == "goodbye":
            sampler.sample()

    if not sync.is_worker:
        with sampler or nullcontext():
            sync.begin(note)
            sync.serve()
        log.write("end", time=time.time())
        return

    injection = parse_injection(config.inject)
    plan = Plan(
        steps=steps,
        precision=precision,
        device=device,
        rank=here.rank,
        size=config.trainers,
        keep_going=config.keep_going,
        accumulate=config.accumulate,
        label_smoothing=config.label_smoothing,
        injection=injection,
    )
    link_delay = injection.delay(here.rank, "link") if injection else 0.0
    with sampler or nullcontext(), comm.slow_link(link_delay):
        sync.begin(note)
        train(sync, loader, test, plan, log)
        if config.save_model and sync.has_servers:  # whoever has seen the most updates: that is known at the end
            checkpoint.save(sync.model, model_file(folder, here.rank))
        elif config.save_model and here.rank == 0:
            checkpoint.save(sync.model, model_file(folder))
        sync.finish()
    if clock and not sync.has_servers:  # whose workers end at their own times
        log.write("clock", **asdict(measure_offset(comm, device)))
    log.write(
        "end",
        time=time.time(),
        parameters_sha256=checkpoint.fingerprint(sync.model.parameters()),
        buffers_sha256=checkpoint.fingerprint(sync.model.buffers()),
    )


def load_data(config: RunConfig, here: world.World) -> data.DataSet:
    """This rank's part of the training set; a rank that only serves wants nothing of it. The hashes were checked."""
    own = data.Wanted(config.train_samples, min(here.rank, config.trainers), config.trainers)
    parts = data.Parts(own, data.Wanted(config.test_samples))
    native = models.native_data(config.model)
    read = mpi.read_rows if config.transport == "mpi" else map_rows
    return data.load(config.data, native=native, seed=config.seed, parts=parts, verify=False, read=read)


def build_model(config: RunConfig, samples: data.DataSet, rank: int) -> tuple[nn.Module, torch.memory_format]:
    """The model every rank draws alike, unless asked not to, and its layout in memory."""
    torch.manual_seed(config.seed + (rank if config.start == "own" else 0))
    model = models.build(config.model, shape=samples.shape, classes=samples.classes, norm=config.norm)
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(config.seed + rank)  # dropout, and whatever a user's Dataset draws, differs between ranks
    return model, models.memory_format(config.model, model, config.precision)


def start_facts(config: RunConfig, here: world.World, device: torch.device) -> dict[str, Any]:
    """What this rank is part of, and where it runs."""
    return {
        "rank": here.rank,
        "ranks": config.trainers,
        "strategy": config.strategy,
        "model": config.model,
        "data": config.data,
        "world_size": config.workers,
        "batch_size": config.batch_size,
        "node": here.node,
        "kernel": here.kernel,
        "pid": os.getpid(),
        "began": psutil.Process().create_time(),
        "device": str(device),
        "backend": world.choose_backend(here, device, config.transport),
        "threads": config.threads,
        "torch": torch.__version__,
    }


def strategy_facts(sync: strategies.Strategy) -> dict[str, Any]:
    """What travels, in closed form where there is one, and what has travelled before the first step."""
    traffic = sync.wire_bytes() if sync.comm.transport == "torch" else None
    return {
        "role": "worker" if sync.is_worker else "server",
        "parameters": models.count_parameters(sync.model),
        "gradient_bytes": sum(item.nbytes for item in sync.model.parameters() if item.requires_grad),
        "buffers": sync.buffers,
        "wire_bytes": [traffic.sent, traffic.received] if traffic else None,
        "setup_payload": [[call.kind, call.sent, call.received] for call in sync.comm.meter.take_calls()],
    }


def join(config: RunConfig, here: world.World, device: torch.device) -> Comm:
    """This rank's end of a group of as many processes as the run is for."""
    meter = Recorder(device) if config.measure else Stopwatch()
    if config.transport == "mpi":
        return mpi.MpiComm(meter)
    if config.processes != here.size:
        hint = f" HINT: SLURM_NTASKS is {here.size}: make it {config.processes}." if here.launcher == "slurm" else ""
        raise InputError(f"the run is for {config.processes} processes, but {here.size} were started.{hint}")
    world.join(here, device, config.transport)
    return TorchComm(here.rank, here.size, meter)


def is_lost_peer(error: Exception) -> bool:
    """Whether this rank failed only because another did: not the cause worth showing."""
    text = str(error).lower()
    return isinstance(error, (LostPeer, torch.distributed.DistError)) or "gloo" in text or "nccl" in text


if __name__ == "__main__":
    code = main()
    mpi.leave(completed=code == 0)
    sys.stdout.flush()
    sys.stderr.flush()
    for child in multiprocessing.active_children():  # loader processes, which os._exit would leave behind
        child.terminate()
        child.join()
    # Not sys.exit: a gloo thread that still lets go of its last tensor while the interpreter is being taken down
    # aborts the process ("terminate called without an active exception", a bare script did so in 6 of 80 processes).
    os._exit(code)
