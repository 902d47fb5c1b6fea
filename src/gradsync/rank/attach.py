"""The library form: a synchronization strategy attached to the model of the user's own training script."""

from __future__ import annotations

import atexit
import gc
from functools import cache
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.optim import Optimizer

from gradsync.comm import Comm, TorchComm, mpi
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.rank import world
from gradsync.strategies import Roles, Strategy, attached, construct, find_strategy, name_of, takes_replicas

_living: WeakSet[Strategy] = WeakSet()


def attach(
    model: nn.Module,
    optimizer: Optimizer,
    strategy: str | type[Strategy] = "ddp",
    *,
    buffers: Buffers | None = None,
    sync_bn: bool = False,
    replicas: int = 1,
    **options: Any,
) -> Strategy:
    """Join the processes that torchrun or mpiexec started, and return the object to call and to step.

    sync = gradsync.attach(model, optimizer, strategy="all-reduce")
    loss = criterion(sync(x), y); loss.backward(); sync.step()

    ``strategy`` is a name, ``path/file.py:Class``, or a subclass of ``gradsync.Strategy``; other keywords are its
    options. ``replicas`` is for data-parallel, which keeps its workers in one process. A model has one strategy at a
    time: attaching another one detaches the first; ``sync.detach()`` leaves the bare model.

    Only with ddp does clipping gradients between backward and step give what one process computes; bucketed refuses
    it. Clipping in a hook of the optimizer is correct with every strategy (docs/library.md).
    """
    kind, name = find_strategy(strategy), name_of(strategy)
    if kind.has_servers:
        raise InputError(f"{name} needs server processes, which `gradsync train --strategy {name}` starts.")
    if replicas != 1 and not takes_replicas(kind):
        raise InputError(f"replicas is for data-parallel: {name} has as many workers as there are processes.")
    here = world.current()
    over_mpi = here.launcher in world.MPI_LAUNCHERS
    if over_mpi and not kind.over_mpi:
        raise InputError(f"{name} does not run over MPI. Use bucketed, which computes the same.")
    comm = mpi_comm() if over_mpi else TorchComm(here.rank, here.size)
    sync = construct(strategy, comm, buffers, options, Roles(workers=replicas))
    if not over_mpi and world.join(here, device_of(model)):
        leave_at_exit()
    _living.add(sync)
    return attached(sync, model, optimizer, sync_bn)


def mpi_comm() -> Comm:
    mpi.abort_on_error()
    return mpi.MpiComm()


def device_of(model: nn.Module) -> torch.device:
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


@cache  # registered once, however often the group is joined
def leave_at_exit() -> None:
    atexit.register(leave_group)


def leave_group() -> None:
    """Leave the group at the end of the script. Strategies are detached first: DDP's reducers would keep it alive.

    Its threads must not outlive Python: otherwise "terminate called without an active exception" aborts the process
    (2 of 80 bare scripts).
    """
    for sync in list(_living):
        sync.detach()
    gc.collect()
    world.leave()
