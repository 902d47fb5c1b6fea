"""One rank of a run: builds the parts from the settings, trains or serves, and writes its record.

Given several folders it does one run after another in the same processes, until one fails.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy
import torch
from torch import nn
from torch.optim import Optimizer

from gradsync import data, models, strategies
from gradsync.comm import Comm, mpi
from gradsync.comm.clock import measure_offset, round_trip
from gradsync.config import Resolved, parse_injection, plugin
from gradsync.config.objects import name_of
from gradsync.config.resolved import NO_FP16
from gradsync.data.batches import Layout
from gradsync.data.loader import Loader
from gradsync.data.rows import map_rows
from gradsync.errors import InputError
from gradsync.meter.host import HostSampler
from gradsync.meter.network import choose_counter
from gradsync.rank import conformance, world
from gradsync.rank.facts import end_facts, fingerprints, place_facts, strategy_facts
from gradsync.rank.main import join, run_all
from gradsync.record import RankLog, model_file
from gradsync.strategies import ServerStrategy, Strategy
from gradsync.train import checkpoint, optim
from gradsync.train.graph import write_graph
from gradsync.train.precision import PRECISIONS
from gradsync.train.task import make_task
from gradsync.train.trainer import LossNotFinite, Plan, train

TEST_BATCH = 256
EXPECTED_ERRORS = (InputError, LossNotFinite)  # their message is enough, without a traceback


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """The parts of one run on this rank."""

    config: Resolved
    folder: Path
    here: world.World
    log: RankLog
    loader: Loader
    test: Loader | None
    plan: Plan
    sampler: HostSampler | None

    @property
    def link_delay(self) -> float:
        return self.plan.injection.delay(self.here.rank, "link") if self.plan.injection else 0.0


def run(config: Resolved, folder: Path, here: world.World, log: RankLog) -> None:
    torch.set_num_threads(config.threads)
    device = world.choose_device(config.device, here)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # time stamps are taken in the stream of the current device
    precision = PRECISIONS[config.precision]
    if precision.scaled and device.type == "cpu":
        raise InputError(NO_FP16)

    begin = time.monotonic()
    samples = load_data(config, here)
    read_seconds = time.monotonic() - begin
    model, layout = build_model(config, samples, here.rank)
    model.to(device, precision.storage).to(memory_format=layout)  # type: ignore[call-overload]
    if config.compile:
        model.compile()
    task = make_task(config, device)

    load = partial(
        Loader,
        layout=Layout(precision.storage, layout),
        pin=device.type == "cuda",
        processes=config.loader_processes,
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
    updates_per_step = config.trainers if config.asynchronous else 1

    comm = join(config, here, device)
    optimizer = optim.make(config, model, steps * updates_per_step, loader.steps_per_epoch * updates_per_step)
    roles = strategies.Roles(config.workers, config.server_ranks, steps)
    sync = strategies.construct(config.strategy, comm, config.buffers, config.options, roles)
    attach(sync, model, optimizer, config)
    ranks_differ = sync.replicas_differ or (config.start == "own" and comm.size > 1)

    if "tensorboard" in config.trackers and here.rank == 0:
        write_graph(model, samples.example.map(Layout(precision.storage).input).to(device), folder)
    test = None
    if config.eval:
        # Ranks that hold different models each test on everything; equal ones share the work.
        rank, size = (0, 1) if ranks_differ else (here.rank, config.trainers)
        test = load(samples.test, batch_size=TEST_BATCH, rank=rank, size=size)

    # Only after the strategy has sent its first messages do the sockets to be counted exist.
    counted = config.measure and comm.transport == "torch"
    counter = choose_counter(here.interface, here.local_size) if counted else None
    clock = measure_offset(comm, device) if config.measure else None
    is_server = isinstance(sync, ServerStrategy) and not sync.is_worker
    log.write(
        "start",
        **start_facts(config, here, device),
        **strategy_facts(sync),
        role="server" if is_server else "worker",
        read_seconds=read_seconds,
        network_source=counter.source if counter else None,
        steps=steps,
        steps_per_epoch=loader.steps_per_epoch,
        positions=samples.positions,
    )
    if clock:
        log.write("clock", **asdict(clock))
    plan = Plan(
        steps=steps,
        task=task,
        precision=precision,
        device=device,
        rank=here.rank,
        size=config.trainers,
        keep_going=config.keep_going,
        accumulate=config.accumulate,
        with_metrics=config.train_accuracy and bool(task.metrics),
        injection=parse_injection(config.inject),
        ranks_differ=ranks_differ,
    )
    sampler = HostSampler(log, counter, device) if config.measure else None
    parts = RunParts(
        config=config, folder=folder, here=here, log=log, loader=loader, test=test, plan=plan, sampler=sampler
    )
    if isinstance(sync, ServerStrategy):
        take_part_with_servers(sync, parts)
    else:
        train_among_peers(sync, parts)
        if config.conformance:
            log.write("conformance", **conformance.tried(trial(parts, comm, samples)))
    log.write("end", **end_facts(), **({} if is_server else fingerprints(sync.model)))
    sync.detach()


def train_among_peers(sync: Strategy, parts: RunParts) -> None:
    """Every rank trains, and all of them end at the same step."""
    config, log, device = parts.config, parts.log, parts.plan.device
    with parts.sampler or nullcontext(), sync.comm.slow_link(parts.link_delay):
        train(sync, parts.loader, parts.test, parts.plan, log)
        if config.save_model and parts.here.rank == 0:
            checkpoint.save(sync.model, model_file(parts.folder))
        if config.measure:
            log.write("round-trip", round_trip=round_trip(sync.comm, device))
    if config.measure:
        log.write("clock", **asdict(measure_offset(sync.comm, device)))


def take_part_with_servers(sync: ServerStrategy, parts: RunParts) -> None:
    """This rank trains, serves or does both. Workers end at different times, so nothing is measured at the end."""
    plan = replace(parts.plan, step_facts=sync.step_facts, stopped=lambda: sync.finished)

    def note(kind: str, **values: Any) -> None:
        parts.log.write(kind, **values)
        if parts.sampler and kind == "goodbye":  # its connection is about to close, which loses its counts
            parts.sampler.sample()

    with parts.sampler or nullcontext(), sync.comm.slow_link(parts.link_delay):
        sync.begin(note)
        if not sync.is_worker:
            sync.serve()
            return
        train(sync, parts.loader, parts.test, plan, parts.log)
        if parts.config.save_model:  # every worker: only at the end is it known which has seen the most updates
            checkpoint.save(sync.model, model_file(parts.folder, parts.here.rank))
        sync.finish()


def trial(parts: RunParts, comm: Comm, samples: data.DataSet) -> conformance.Trial:
    """The same settings again, for what is tried of the strategy besides training."""
    config, plan, here = parts.config, parts.plan, parts.here
    apart = replace(config, start="own", schedule="constant", warmup_epochs=0.0)

    def build() -> tuple[nn.Module, Optimizer]:
        model, layout = build_model(apart, samples, here.rank)
        model.to(plan.device, plan.precision.storage).to(memory_format=layout)  # type: ignore[call-overload]
        return model, optim.make(apart, model)

    roles = strategies.Roles(config.workers, config.server_ranks, conformance.STEPS)
    counts = comm.size > 1 and comm.transport == "torch"
    return conformance.Trial(
        comm=comm,
        build=build,
        make=lambda comm: strategies.construct(config.strategy, comm, config.buffers, config.options, roles),
        attach=lambda sync, model, optimizer: strategies.attached(sync, model, optimizer, config.sync_bn),
        loader=parts.loader,
        plan=plan,
        counter=choose_counter(here.interface, here.local_size) if counts else None,
        loops=partial(
            plugin.resolve(conformance.LOOPS, "conformance"),
            config.strategy,
            buffers=config.buffers,
            options=config.options,
            workers=config.workers,
            comm=comm.unmetered(),
            device=plan.device,
            dtype=plan.precision.storage,
        ),
    )


def attach(sync: Strategy, model: nn.Module, optimizer: Optimizer, config: Resolved) -> None:
    """Attaching gives every rank the parameters and buffers of rank 0; with --start own each gets its own back."""
    state = [*model.parameters(), *model.buffers()]
    own = [item.detach().clone() for item in state] if config.start == "own" else []
    strategies.attached(sync, model, optimizer, config.sync_bn)
    with torch.no_grad():
        for item, value in zip(state, own, strict=False):
            item.copy_(value)


def load_data(config: Resolved, here: world.World) -> data.DataSet:
    """This rank's part of the training set; a rank that only serves reads none. The command checked the hashes."""
    own = data.Wanted(config.train_samples, min(here.rank, config.trainers), config.trainers)
    parts = data.Parts(own, data.Wanted(config.test_samples))
    native = models.native_data(config.model, config.model_options)
    read = mpi.read_rows if config.transport == "mpi" else map_rows
    return data.load(config.data, native=native, seed=config.seed, parts=parts, verify=False, read=read)


def build_model(config: Resolved, samples: data.DataSet, rank: int) -> tuple[nn.Module, torch.memory_format]:
    """The model, with the same random parameters on every rank unless --start is own, and its memory layout."""
    torch.manual_seed(config.seed + (rank if config.start == "own" else 0))
    model = models.build(
        config.model,
        shape=samples.shape,
        classes=samples.classes,
        norm=config.norm,
        options=config.model_options,
        is_tokens=samples.is_tokens,
    )
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(config.seed + rank)  # dropout, and the random numbers of a user's Dataset, differ between ranks
    return model, models.memory_format(config.model, model, config.precision)


def start_facts(config: Resolved, here: world.World, device: torch.device) -> dict[str, Any]:
    """What this rank is part of, and where it runs."""
    return {
        **place_facts(config, here, device),
        "ranks": config.trainers,
        "strategy": name_of(config.strategy),
        "model": name_of(config.model),
        "data": name_of(config.data),
        "batch_size": config.batch_size,
    }


def main(folders: Sequence[str]) -> NoReturn:
    run_all(run, [Path(folder) for folder in folders], EXPECTED_ERRORS)
