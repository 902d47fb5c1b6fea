"""One rank: ``python -m gradsync.worker FOLDER`` builds the parts from the config, trains, writes its record.

Given several folders it does one run after another in the same processes, until one fails.
"""

from __future__ import annotations

import ctypes
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

import numpy
import torch

from gradsync import config as configs
from gradsync import data, models, strategies, world
from gradsync.comm import TorchComm
from gradsync.comm.clock import measure_offset
from gradsync.config import RunConfig, parse_injection
from gradsync.data.loader import Loader
from gradsync.errors import InputError
from gradsync.meter.host import HostSampler
from gradsync.meter.network import choose_counter
from gradsync.meter.recorder import Recorder, Stopwatch
from gradsync.plugin import users_traceback
from gradsync.record import RankLog, log_file
from gradsync.train import checkpoint, optim
from gradsync.train.graph import write_graph
from gradsync.train.precision import PRECISIONS
from gradsync.train.trainer import LossNotFinite, Plan, train

TEST_BATCH = 256
EXPECTED_ERRORS = (InputError, LossNotFinite)  # a sentence says it all


def main() -> int:
    end_with_parent()
    here = world.discover()
    first, *others = map(Path, sys.argv[1:])
    if not run_recorded(first, here):
        return 1  # without leaving the group, which would wait for peers that will never come
    for folder in others:
        print_into(folder, here.rank)
        if not run_recorded(folder, here):
            return 1
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
        run(configs.load(folder / "config.json").resolved(), folder, here, log)
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
    assert config.lr is not None and config.weight_decay is not None
    if config.workers != here.size:
        raise InputError(f"the run is for {config.workers} workers, but {here.size} processes were started.")
    torch.set_num_threads(config.threads)
    device = world.choose_device(config.device, here)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # stamps are taken in the stream of the current one
    precision = PRECISIONS[config.precision]

    samples = data.load(
        config.data,
        native=models.native_data(config.model),
        seed=config.seed,
        train_samples=config.train_samples,
        test_samples=config.test_samples,
    )
    torch.manual_seed(config.seed)
    model = models.build(config.model, shape=samples.shape, classes=samples.classes, norm=config.norm)
    layout = models.memory_format(config.model, model, config.precision)
    model.to(device, precision.storage).to(memory_format=layout)  # type: ignore[call-overload]
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(config.seed + here.rank)  # dropout, and whatever a user's Dataset draws, differs between ranks

    world.join(here, device)
    optimizer = optim.make(
        config.optimizer, model, lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
    )
    injection = parse_injection(config.inject)
    comm = TorchComm(here.rank, here.size, Recorder(device) if config.measure else Stopwatch())
    sync = strategies.make(config.strategy, comm, model, optimizer, config.buffers, config.sync_bn, config.options)

    load = partial(
        Loader, dtype=precision.storage, layout=layout, pin=device.type == "cuda", processes=config.loader_processes
    )
    loader = load(
        samples.train,
        batch_size=config.batch_size,
        seed=config.seed,
        rank=here.rank,
        size=here.size,
        augment=config.augment,
    )
    if not loader.steps_per_epoch:
        raise InputError(f"{here.size} workers cannot share {len(samples.train)} training samples.")
    if config.tensorboard and here.rank == 0:
        example = torch.zeros(1, *samples.shape, dtype=precision.storage, device=device)
        write_graph(model, example, folder)
    test = None
    if config.eval:
        # Ranks that hold different models each test on everything; equal ones share the work.
        rank, size = (0, 1) if sync.replicas_differ else (here.rank, here.size)
        test = load(samples.test, batch_size=TEST_BATCH, rank=rank, size=size)

    # After the strategy has sent its first messages: the sockets to be counted are there.
    counter = choose_counter(here.interface, here.local_size) if config.measure else None
    wire_bytes = sync.wire_bytes()
    clock = measure_offset(comm, device) if config.measure else None
    steps = config.steps or (config.epochs or 1) * loader.steps_per_epoch
    log.write(
        "start",
        rank=here.rank,
        role="worker",
        strategy=config.strategy,
        model=config.model,
        data=config.data,
        world_size=here.size,
        batch_size=config.batch_size,
        node=here.node,
        kernel=here.kernel,
        pid=os.getpid(),
        device=str(device),
        backend=world.choose_backend(here, device),
        threads=config.threads,
        torch=torch.__version__,
        parameters=models.count_parameters(model),
        gradient_bytes=sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad),
        buffers=sync.buffers,
        wire_bytes=[wire_bytes.sent, wire_bytes.received] if wire_bytes else None,
        network_source=counter.source if counter else None,
        setup_payload=[[call.kind, call.sent, call.received] for call in comm.meter.take_calls()],
        steps=steps,
        steps_per_epoch=loader.steps_per_epoch,
    )
    plan = Plan(
        steps=steps,
        precision=precision,
        device=device,
        rank=here.rank,
        size=here.size,
        keep_going=config.keep_going,
        injection=injection,
    )
    if clock:
        log.write("clock", **asdict(clock))
    link_delay = injection.delay(here.rank, "link") if injection else 0.0
    with HostSampler(log, counter, device) if config.measure else nullcontext(), comm.slow_link(link_delay):
        train(sync, loader, test, plan, log)
    if clock:
        log.write("clock", **asdict(measure_offset(comm, device)))

    if config.save_model and here.rank == 0:
        checkpoint.save(model, folder / "model.pt")
    log.write(
        "end",
        time=time.time(),
        parameters_sha256=checkpoint.fingerprint(model.parameters()),
        buffers_sha256=checkpoint.fingerprint(model.buffers()),
    )


def is_lost_peer(error: Exception) -> bool:
    """Whether this rank failed only because another did: not the cause worth showing."""
    text = str(error).lower()
    return isinstance(error, torch.distributed.DistError) or "gloo" in text or "nccl" in text


def end_with_parent() -> None:
    """If the process that started this one is killed outright, do not outlive it (Linux)."""
    if sys.platform == "linux":
        set_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    for child in multiprocessing.active_children():  # loader processes, which os._exit would leave behind
        child.terminate()
        child.join()
    # Not sys.exit: a gloo thread that still lets go of its last tensor while the interpreter is being taken down
    # aborts the process ("terminate called without an active exception", a bare script did so in 6 of 80 processes).
    os._exit(code)
