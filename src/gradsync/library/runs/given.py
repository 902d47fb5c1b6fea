"""Settings as they are given in Python: under the names of the flags, and with objects where a flag has a name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, get_origin, get_type_hints

import numpy
from torch import nn

from gradsync import data, models, strategies
from gradsync.config import RunConfig, objects, read_file, task
from gradsync.config.run import over
from gradsync.config.values import shown, types_of
from gradsync.errors import InputError, unknown
from gradsync.train.optim import OPTIMIZERS

ALIASES = {"strategy": "strategies", "strategies": "strategy"}
"""As on the command line, both names are understood where a command has one of them."""


def settings_of(kind: Any, given: Mapping[str, Any], call: str) -> dict[str, Any]:
    """Keyword arguments for the class of settings. ``config``: a file whose settings these override."""
    known = {item.name for item in fields(kind)}
    given = dict(given)
    config = given.pop("config", None)
    found: dict[str, Any] = {}
    for name, value in given.items():
        field = name if name in known else ALIASES.get(name, name)
        if field not in known:
            raise unknown(f"setting of {call}:", name, known)
        is_list = get_origin(types_of(kind)[field]) is tuple
        found[field] = [value] if is_list and not isinstance(value, (list, tuple)) else value
    named = {name: as_named(name, value) for name, value in found.items()}
    return over(read_file(Path(config), kind), named) if config is not None else named


def as_named(name: str, value: Any) -> Any:
    """A value as a flag could give it: objects by reference, paths as text, numbers of numpy as numbers."""
    names = Names(name)
    if isinstance(value, (list, tuple)) and name != "data":
        return [names.of(item) for item in value]
    return names.of(value)


class Names:
    """The values of one setting in one call, each object under a name that none of the others has."""

    def __init__(self, setting: str) -> None:
        self._setting = "strategy" if setting == "strategies" else setting
        self._references: dict[int, str] = {}
        self._taken = set(BUILT_IN.get(self._setting, ()))

    def of(self, value: Any) -> Any:
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, numpy.generic):
            return value.item()
        if self._setting not in OBJECTS or value is None or isinstance(value, (str, int, float)):
            return value
        if id(value) not in self._references:
            self._references[id(value)] = self._reference(value)
        return self._references[id(value)]

    def _reference(self, value: Any) -> str:
        if isinstance(value, type) and value in strategies.STRATEGIES.values():
            return next(name for name, kind in strategies.STRATEGIES.items() if kind is value)
        thing = OBJECTS[self._setting](value)
        name = first = called(value)
        number = 1
        while name in self._taken:
            number += 1
            name = f"{first}-{number}"
        self._taken.add(name)
        return objects.remember(thing, name, self._setting)


def called(value: Any) -> str:
    """MySync for the class and for an instance of it, make_model for the function; of a pair, the first."""
    if isinstance(value, (tuple, list)) and value:
        return called(value[0])
    value = value.func if isinstance(value, partial) else value
    return getattr(value, "__name__", type(value).__name__).strip("<>")


def as_model(value: Any) -> Any:
    """A function that makes the model, or a model, whose parameters are the start of every run."""
    if isinstance(value, nn.Module):
        return partial(deepcopy, value)
    return as_function(value, "model", "a torch.nn.Module, a function that returns one, or a name")


def as_data(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return partial(tuple, list(value))
    return as_function(
        value, "data", "a pair of torch Datasets, train and test, a function that returns one, or a name"
    )


def as_strategy(value: Any) -> type[strategies.Strategy]:
    if isinstance(value, type):
        return with_types(strategies.find_strategy(value))
    raise InputError(
        f"--strategy is {shown(value)}: it must be a name, file.py:Class, or a subclass of gradsync.Strategy itself, "
        "not an instance of one."
    )


def with_types(kind: type[strategies.Strategy]) -> type[strategies.Strategy]:
    """Annotations that are text are evaluated here: of its globals the ranks get only those that its code uses."""
    for base in kind.__mro__:
        constructor = vars(base).get("__init__")
        if isinstance(constructor, FunctionType) and not base.__module__.startswith("gradsync."):
            with suppress(NameError):  # which is told where the options are read
                constructor.__annotations__ = get_type_hints(constructor)
    return kind


def as_function(value: Any, what: str, wanted: str) -> Any:
    if callable(value):
        return value
    raise InputError(f"--{what} is {shown(value)}: it must be {wanted}.")


OBJECTS: dict[str, Callable[[Any], Any]] = {
    "model": as_model,
    "data": as_data,
    "strategy": as_strategy,
    "optimizer": partial(
        as_function, what="optimizer", wanted="a function or class that takes (parameters, lr), or a name"
    ),
    "loss": partial(as_function, what="loss", wanted="a function that takes (outputs, target), or a name"),
    "metric": partial(as_function, what="metric", wanted="a function that takes (outputs, target), or a name"),
}
"""Setting -> what the ranks get for an object that is given for it."""

BUILT_IN: dict[str, Iterable[str]] = {
    "model": models.MODELS,
    "data": ("synthetic", *data.FILE_SETS),
    "strategy": strategies.STRATEGIES,
    "optimizer": OPTIMIZERS,
    "loss": task.LOSSES,
    "metric": (*task.SUITED, task.NO_METRIC),
}
"""Names that an object never gets, as figures tell runs apart by them."""


def as_settings(base: Mapping[str, Any] | RunConfig) -> dict[str, Any]:
    """What a dict or a RunConfig says, as keyword arguments of a study; every study has an ``out`` of its own."""
    if isinstance(base, RunConfig):
        default = RunConfig()
        return {
            item.name: getattr(base, item.name)
            for item in fields(RunConfig)
            if item.name == "model" or getattr(base, item.name) != getattr(default, item.name)
        }
    if isinstance(base, Mapping):
        return dict(base)
    raise InputError(f"the base of a sweep is {shown(base)}: it must be a dict of settings, or a RunConfig.")
