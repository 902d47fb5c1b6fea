"""Every way for workers to agree, by name. A new one is one file and one line here."""

from __future__ import annotations

import atexit
import gc
import inspect
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import nn
from torch.optim import Optimizer

from gradsync import world
from gradsync.comm import Comm, TorchComm, mpi
from gradsync.config import Buffers
from gradsync.errors import InputError, unknown
from gradsync.plugin import is_reference, resolve, users_error, users_frames
from gradsync.strategies import sync_batchnorm
from gradsync.strategies.all_reduce import AllReduce
from gradsync.strategies.base import Roles, Strategy
from gradsync.strategies.bucketed import Bucketed
from gradsync.strategies.data_parallel import DataParallel
from gradsync.strategies.ddp import DDP
from gradsync.strategies.gather_scatter import GatherScatter
from gradsync.strategies.local import Local
from gradsync.strategies.none import NoAgreement
from gradsync.strategies.ps_async import PsAsync
from gradsync.strategies.ps_sync import PsSync
from gradsync.strategies.reduce_broadcast import ReduceBroadcast
from gradsync.strategies.ring import Ring

STRATEGIES: dict[str, type[Strategy]] = {
    "local": Local,
    "gather-scatter": GatherScatter,
    "reduce-broadcast": ReduceBroadcast,
    "all-reduce": AllReduce,
    "ring": Ring,
    "bucketed": Bucketed,
    "ddp": DDP,
    "data-parallel": DataParallel,
    "ps-sync": PsSync,
    "ps-async": PsAsync,
    "none": NoAgreement,
}

__all__ = ["STRATEGIES", "Roles", "Strategy", "attach", "attached", "construct", "option_types", "parse_options"]


def attach(
    model: nn.Module,
    optimizer: Optimizer,
    strategy: str = "ddp",
    *,
    buffers: Buffers | None = None,
    sync_bn: bool = False,
    replicas: int = 1,
    **options: Any,
) -> Strategy:
    """The library form: joins the world torchrun started, and returns the object to call and to step.

    sync = gradsync.attach(model, optimizer, strategy="all-reduce")
    loss = criterion(sync(x), y); loss.backward(); sync.step()

    ``replicas`` is for data-parallel, which has them in one process.

    To clip gradients between backward and step is what one process does only with ddp; bucketed refuses it. In a
    hook of the optimizer it is right with every strategy (docs/library.md).
    """
    if find(strategy).has_servers:
        raise InputError(f"{strategy} needs server processes, which `gradsync train --strategy {strategy}` starts.")
    if replicas != 1 and strategy != "data-parallel":
        raise InputError(f"replicas is for data-parallel: {strategy} has as many workers as there are processes.")
    here = world.current()
    if here.launcher in world.MPI_LAUNCHERS:
        if strategy == "ddp":
            raise InputError("PyTorch's ddp does not run over MPI: bucketed computes the same.")
        mpi.abort_on_error()
        sync = construct(strategy, mpi.MpiComm(), buffers, options, Roles(workers=replicas))
        return attached(sync, model, optimizer, sync_bn)
    parameter = next(model.parameters(), None)
    joined = world.join(here, torch.device("cpu") if parameter is None else parameter.device)
    comm = TorchComm(here.rank, here.size)
    sync = attached(construct(strategy, comm, buffers, options, Roles(workers=replicas)), model, optimizer, sync_bn)
    if joined:
        atexit.register(leave_group, sync)
    return sync


def leave_group(sync: Strategy) -> None:
    """At the end of the script. DDP's reducer holds the group, whose threads must not outlive Python: it goes first.

    Otherwise "terminate called without an active exception" aborts the process (2 of 80 bare scripts).
    """
    sync.detach()
    gc.collect()
    world.leave()


def attached(sync: Strategy, model: nn.Module, optimizer: Optimizer, sync_bn: bool) -> Strategy:
    """In a world that has been joined."""
    if sync_bn:
        model = sync_batchnorm.convert(model, sync.comm)
    sync.attach(model, optimizer)
    return sync


def construct(
    name: str, comm: Comm, buffers: Buffers | None, options: dict[str, Any], roles: Roles | None = None
) -> Strategy:
    """Not attached yet. What a strategy of the user's raises is shown with its traceback and none of ours."""
    kind = find(name)
    with_roles = {"roles": roles} if kind.takes_roles else {}
    try:
        return kind(comm, buffers=buffers, **with_roles, **parse_options(name, options))
    except Exception as error:
        if isinstance(error, InputError) or not is_reference(name):
            raise
        if users_frames(error.__traceback__) is None:
            raise InputError(
                f"--strategy {name} cannot be made: {error}. Its constructor must take (comm, *, buffers=None)."
            ) from None
        raise users_error(f"--strategy {name} raised an error when it was made", error) from error


def find(name: str) -> type[Strategy]:
    """By name, or the user's own as package.module:Class or path/file.py:Class."""
    if is_reference(name):
        found: Any = resolve(name, "strategy")
        if not (isinstance(found, type) and issubclass(found, Strategy)):
            raise InputError(f"--strategy {name} is not a strategy: it must be a class made from gradsync.Strategy.")
        return found
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES, "Or your own as path/file.py:Class.")
    return STRATEGIES[name]


def option_types(name: str) -> dict[str, type]:
    """The options of a strategy as they are written, with their types: the keywords its constructor adds."""
    constructor = find(name).__init__
    hints = get_type_hints(constructor)
    keywords = [p.name for p in inspect.signature(constructor).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {
        keyword.replace("_", "-"): plain_type(hints.get(keyword, str))
        for keyword in keywords
        if keyword not in ("buffers", "roles")
    }


def plain_type(hint: Any) -> type:
    """float of ``float | None``: None is for an option that is not given."""
    if get_origin(hint) is Literal:
        return hint
    return next((kind for kind in get_args(hint) if kind is not type(None)), hint)


def parse_options(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for the constructor. What is no option, or not of its type, is refused."""
    types = option_types(name)
    parsed = {}
    for key, value in given.items():
        option = key.replace("_", "-")
        if option not in types:
            raise unknown(f"option of {name}", option, types)
        parsed[option.replace("-", "_")] = parse_value(option, value, types[option])
    return parsed


def parse_value(option: str, value: Any, kind: type) -> Any:
    text = str(value)
    if get_origin(kind) is Literal:
        if text in get_args(kind):
            return text
        raise InputError(f"--options.{option} is {text}: it must be {' or '.join(get_args(kind))}.")
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        if kind is not bool:
            return kind(text)
    except ValueError:
        pass
    wanted = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "text")
    raise InputError(f"--options.{option} is {text}: it must be {wanted}.")
