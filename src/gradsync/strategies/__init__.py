"""Every way for workers to agree, by name. A new one is one file and one line here."""

from __future__ import annotations

import atexit
import inspect
from typing import Any, get_type_hints

import torch
from torch import nn
from torch.optim import Optimizer

from gradsync import world
from gradsync.comm import TorchComm
from gradsync.config import Buffers
from gradsync.errors import InputError, unknown
from gradsync.strategies import sync_batchnorm
from gradsync.strategies.all_reduce import AllReduce
from gradsync.strategies.base import Strategy
from gradsync.strategies.ddp import DDP
from gradsync.strategies.gather_scatter import GatherScatter
from gradsync.strategies.local import Local

STRATEGIES: dict[str, type[Strategy]] = {
    "local": Local,
    "gather-scatter": GatherScatter,
    "all-reduce": AllReduce,
    "ddp": DDP,
}

__all__ = ["STRATEGIES", "Strategy", "attach", "make", "option_types", "parse_options"]


def attach(
    model: nn.Module,
    optimizer: Optimizer,
    strategy: str = "ddp",
    *,
    buffers: Buffers | None = None,
    sync_bn: bool = False,
    **options: Any,
) -> Strategy:
    """The library form: joins the world torchrun started, and returns the object to call and to step.

    sync = gradsync.attach(model, optimizer, strategy="all-reduce")
    loss = criterion(sync(x), y); loss.backward(); sync.step()
    """
    here = world.discover()
    parameter = next(model.parameters(), None)
    world.join(here, torch.device("cpu") if parameter is None else parameter.device)
    atexit.register(world.leave)
    return make(strategy, TorchComm(here.rank, here.size), model, optimizer, buffers, sync_bn, options)


def make(
    name: str,
    comm: TorchComm,
    model: nn.Module,
    optimizer: Optimizer,
    buffers: Buffers | None,
    sync_bn: bool,
    options: dict[str, Any],
) -> Strategy:
    """A strategy attached to a model, in a world that has been joined."""
    sync = find(name)(comm, buffers=buffers, **parse_options(name, options))
    if sync_bn:
        model = sync_batchnorm.convert(model, comm)
    sync.attach(model, optimizer)
    return sync


def find(name: str) -> type[Strategy]:
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    return STRATEGIES[name]


def option_types(name: str) -> dict[str, type]:
    """The options of a strategy: its keyword arguments beside the ones all have."""
    constructor = find(name).__init__
    hints = get_type_hints(constructor)
    keywords = [p for p in inspect.signature(constructor).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {p.name: hints[p.name] for p in keywords if p.name != "buffers"}


def parse_options(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Options by name, turned from text into their types; what cannot be is refused before anything starts."""
    types = option_types(name)
    parsed = {}
    for key, value in given.items():
        option = key.replace("-", "_")
        if option not in types:
            raise unknown(f"option of {name}", key, [known.replace("_", "-") for known in types])
        parsed[option] = parse_value(key, value, types[option])
    return parsed


def parse_value(key: str, value: Any, kind: type) -> Any:
    if kind is bool and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    try:
        if kind is not bool and not isinstance(value, bool):
            return kind(value)
    except ValueError:
        pass
    wanted = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "text")
    raise InputError(f"--options.{key} is {value!r}: it must be {wanted}.")
