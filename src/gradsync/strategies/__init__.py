"""Every synchronization strategy by name. A new one is one file and one line in ``STRATEGIES``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from gradsync.comm import Comm
from gradsync.config import Buffers, objects
from gradsync.config.facts import Facts
from gradsync.config.plugin import is_reference, resolve, users_error, users_frames
from gradsync.config.values import listed
from gradsync.errors import InputError, unknown
from gradsync.strategies.all_reduce import AllReduce
from gradsync.strategies.base import Strategy, release, strategy_of, wire_bytes
from gradsync.strategies.bucketed import Bucketed
from gradsync.strategies.data_parallel import DataParallel
from gradsync.strategies.ddp import DDP, loss_factor
from gradsync.strategies.gather_scatter import GatherScatter
from gradsync.strategies.gradients.unused import Unused
from gradsync.strategies.local import Local
from gradsync.strategies.none import NoAgreement
from gradsync.strategies.options import keywords, option_types, parse_options
from gradsync.strategies.reduce_broadcast import ReduceBroadcast
from gradsync.strategies.ring import Ring
from gradsync.strategies.server.base import Roles, ServerStrategy
from gradsync.strategies.server.ps_async import PsAsync
from gradsync.strategies.server.ps_sync import PsSync
from gradsync.strategies.state import sync_batchnorm

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

__all__ = [
    "STRATEGIES",
    "Roles",
    "ServerStrategy",
    "Strategy",
    "Unused",
    "attached",
    "construct",
    "facts_of",
    "find_strategy",
    "loss_factor",
    "name_of",
    "strategy_of",
    "takes_replicas",
    "wire_bytes",
]


def find_strategy(name: str | type[Strategy]) -> type[Strategy]:
    """A strategy by its name, or the user's own as package.module:Class, as path/file.py:Class or as the class."""
    if isinstance(name, type):
        if not issubclass(name, Strategy):
            raise InputError(f"{name.__name__} is not a strategy: it must be a subclass of gradsync.Strategy.")
        return name
    if is_reference(name):
        found: Any = resolve(name, "strategy")
        if not (isinstance(found, type) and issubclass(found, Strategy)):
            raise InputError(f"--strategy {name} is not a strategy: it must be a subclass of gradsync.Strategy.")
        if found.has_servers and not issubclass(found, ServerStrategy):
            raise InputError(
                f"--strategy {name} declares servers: it must be a subclass of gradsync.strategies.ServerStrategy."
            )
        return found
    if len(listed(name)) > 1:
        raise InputError(
            f"--strategy is {name}: a run has one strategy. HINT: gradsync compare --strategies {name} makes a run "
            "with each."
        )
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES, "Or give your own as path/file.py:Class.")
    return STRATEGIES[name]


def name_of(strategy: str | type[Strategy]) -> str:
    """What to call it in a message."""
    return strategy.__name__ if isinstance(strategy, type) else objects.name_of(strategy)


def takes_replicas(kind: type[Strategy]) -> bool:
    """Whether it runs several workers in one process, and therefore takes their number."""
    return "replicas" in keywords(kind)


def facts_of(strategy: str | type[Strategy], options: Mapping[str, Any] | None = None, workers: int = 1) -> Facts:
    """What the class of a strategy declares, for a run with these options and this number of workers."""
    kind, name = find_strategy(strategy), name_of(strategy)
    spare, asynchronous = 0, False
    if issubclass(kind, ServerStrategy):
        spare = kind.spare_workers(workers, **parse_options(name, kind, options or {}))
        asynchronous = kind.asynchronous
    return Facts(
        exact=workers == 1 if asynchronous else kind.exact,  # with one worker no gradient is ever stale
        has_servers=kind.has_servers,
        in_one_process=kind.in_one_process,
        asynchronous=asynchronous,
        over_mpi=kind.over_mpi,
        spare_workers=spare,
        option_names=tuple(option_types(kind)),
    )


def construct(
    strategy: str | type[Strategy],
    comm: Comm,
    buffers: Buffers | None,
    options: Mapping[str, Any],
    roles: Roles | None = None,
    unused: Unused = "refuse",
) -> Strategy:
    """A strategy, not attached yet. An error in a user's constructor is shown with the user's own traceback."""
    kind, name = find_strategy(strategy), name_of(strategy)
    given = parse_options(name, kind, options)
    if roles and "roles" in keywords(kind):
        given["roles"] = roles
    if roles and takes_replicas(kind):
        given["replicas"] = roles.workers
    if "unused" in keywords(kind):
        given["unused"] = unused
    try:
        return kind(comm, buffers=buffers, **given)
    except Exception as error:
        if isinstance(error, InputError) or isinstance(strategy, type) or not is_reference(strategy):
            raise
        if users_frames(error.__traceback__) is None:
            raise InputError(
                f"--strategy {name} cannot be constructed: {error}. "
                "Its constructor must take (comm, *, buffers=None)."
            ) from None
        raise users_error(f"--strategy {name} raised an error when it was constructed", error) from error


def attached(sync: Strategy, model: nn.Module, optimizer: Optimizer, sync_bn: bool = False) -> Strategy:
    """The strategy, attached to the model, once the process group exists. Calling it calls what ``attach`` returned.

    ``sync_bn``: synchronized BatchNorm layers take the place of the model's own until ``detach``.
    """
    if not sync_bn:
        sync.forward = sync.attach(model, optimizer)
        return sync
    sync.detach()
    release(model)  # which restores the layers that an earlier strategy replaced
    converted, restore = sync_batchnorm.convert(model, sync.comm)
    sync.forward = sync.attach(converted, optimizer)
    sync.on_detach(restore)
    sync.on_detach(lambda: setattr(sync, "model", model))
    return sync
