"""One rank of a run: builds the parts from the config, trains, writes its record.

Given several folders it does one run after another in the same processes, until one fails.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy
import torch
from torch import nn

from gradsync import data, models, strategies, world
from gradsync.comm import mpi
from gradsync.comm.clock import measure_offset, round_trip
from gradsync.config import RunConfig, parse_injection
from gradsync.data.loader import Loader
from gradsync.data.rows import map_rows
from gradsync.errors import InputError
from gradsync.meter.host import HostSampler
from gradsync.meter.network import choose_counter
from gradsync.rank.main import end_facts, join, place_facts, run_all
from gradsync.record import RankLog, model_file
from gradsync.train import checkpoint, optim
from gradsync.train.graph import write_graph
from gradsync.train.precision import PRECISIONS
from gradsync.train.trainer import LossNotFinite, Plan, train

TEST_BATCH = 256
EXPECTED_ERRORS = (InputError, LossNotFinite)  # a sentence says it all


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
        log.write("end", **end_facts())
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
        count_correct=config.train_accuracy,
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
        if clock and not sync.has_servers:
            log.write("round-trip", round_trip=round_trip(comm, device))
    if clock and not sync.has_servers:  # whose workers end at their own times
        log.write("clock", **asdict(measure_offset(comm, device)))
    log.write(
        "end",
        **end_facts(),
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
        **place_facts(config, here, device),
        "ranks": config.trainers,
        "strategy": config.strategy,
        "model": config.model,
        "data": config.data,
        "batch_size": config.batch_size,
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


def main(folders: Sequence[str]) -> NoReturn:
    run_all(run, [Path(folder) for folder in folders], EXPECTED_ERRORS)
