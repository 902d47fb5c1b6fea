"""The library form: a synchronization strategy attached to the model of the user's own training script."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn
from torch.optim import Optimizer

from gradsync.comm import Comm, TorchComm, mpi
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.library import ending, recording, uneven
from gradsync.library.settings import settings_of
from gradsync.library.sync import Sync, refuse_needy
from gradsync.live import trackers
from gradsync.meter.recorder import Recorder, Stopwatch
from gradsync.rank import world
from gradsync.strategies import (
    Roles,
    Strategy,
    Unused,
    attached,
    construct,
    find_strategy,
    name_of,
    strategy_of,
    takes_replicas,
)


def attach(
    model: nn.Module,
    optimizer: Optimizer,
    strategy: str | type[Strategy] = "ddp",
    *,
    buffers: Buffers | None = None,
    sync_bn: bool = False,
    replicas: int = 1,
    unused: Unused = "refuse",
    record: str | PathLike[str] | None = None,
    report: bool = True,
    log_to: str | Sequence[str] = (),
    **options: Any,
) -> Sync:
    """Join the processes that torchrun or mpiexec started, and return the object to call and to step.

    sync = gradsync.attach(model, optimizer, strategy="all-reduce")
    loss = criterion(sync(x), y); loss.backward(); sync.step()

    ``strategy`` is a name, ``path/file.py:Class``, or a subclass of ``gradsync.Strategy``; other keywords are its
    options. ``replicas`` is for data-parallel, which keeps its workers in one process. ``unused``: parameters without
    a gradient in a step are refused, or count as zero. ``record``: a new folder, into which a run is recorded as by
    ``gradsync train``; ``report``: print its tables at the end; ``log_to``: also log it to tensorboard, mlflow or
    wandb, or to several. ``sync.detach()`` leaves the bare model, which can then be attached again.
    """
    kind, name = find_strategy(strategy), name_of(strategy)
    if kind.has_servers:
        raise InputError(f"{name} needs server processes, which `gradsync train --strategy {name}` starts.")
    if replicas != 1 and not takes_replicas(kind):
        raise InputError(f"replicas is for data-parallel: {name} has as many workers as there are processes.")
    if unused not in get_args(Unused):
        raise InputError(f"unused is {unused!r}: it must be one of {', '.join(get_args(Unused))}.")
    refuse_needy(optimizer)
    refuse_mistaken(model, optimizer)
    names = tracker_names(log_to, record)
    here = world.current()
    over_mpi = here.launcher in world.MPI_LAUNCHERS
    if over_mpi and not kind.over_mpi:
        raise InputError(f"{name} does not run over MPI. Use bucketed, which computes the same.")
    device = device_of(model)
    meter = Recorder(device) if record is not None else Stopwatch()
    comm = mpi_comm(meter) if over_mpi else TorchComm(here.rank, here.size, meter)
    agreeing = construct(strategy, comm, buffers, options, Roles(workers=replicas), unused)
    if not over_mpi and world.join(here, device):
        ending.own_group()
    uneven.wait_for_others()  # of models that are attached already
    if record is not None:
        recording.claim(Path(record), comm, device)
    sync = Sync(attached(agreeing, model, optimizer, sync_bn), optimizer, unused)
    if record is not None:
        settings = settings_of(sync, Path(record), kind, name, over_mpi=over_mpi, replicas=replicas, sync_bn=sync_bn)
        settings.log_to = settings.asked.log_to = names
        sync.record(recording.Recording(Path(record), here, agreeing, settings), report, names)
    ending.look_after(sync)
    if sync.size > 1:
        sync.expect_uneven(uneven.presence(comm), sends_in_forward=sync_bn)
        ending.wait_at_exit(sync)
    return sync


def refuse_mistaken(model: nn.Module, optimizer: Optimizer) -> None:
    """Refuse a model that has a strategy already, and an optimizer of another model."""
    if before := strategy_of(model):
        raise InputError(
            f"this model is attached already, with {type(before).__name__}: its gradients would be averaged twice. "
            "HINT: first call detach() on what that attach returned."
        )
    own = {id(parameter) for parameter in model.parameters()}
    if not any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"]):
        raise InputError(
            "the optimizer has none of the model's parameters: it would update something else. HINT: make it with "
            "model.parameters(), of the same object that is attached."
        )


def tracker_names(log_to: str | Sequence[str], record: object) -> tuple[str, ...]:
    names = trackers.named(log_to)
    if names and record is None:
        raise InputError(f"log_to={log_to!r} follows the record of the run: add record=, the folder to record into.")
    return names


def mpi_comm(meter: Stopwatch) -> Comm:
    mpi.abort_on_error()
    return mpi.MpiComm(meter)


def device_of(model: nn.Module) -> torch.device:
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device
