"""The options of a strategy: keyword arguments of its constructor, read from text by their annotated types."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gradsync.config.values import must_be, parsed
from gradsync.errors import InputError, unknown
from gradsync.strategies.base import Strategy

SETTINGS = ("buffers", "roles", "replicas", "unused")
"""Keywords that the settings of a run or of ``attach`` fill in, such as --buffers or --workers: not options."""


def keywords(kind: type[Strategy]) -> dict[str, Any]:
    """The keyword-only arguments of the constructor with their annotations.

    If the constructor takes ``**others``, those of the constructor it overrides are included.
    """
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        constructor = base.__init__  # type: ignore[misc]
        hints, parameters = get_type_hints(constructor), inspect.signature(constructor).parameters.values()
        named = {p.name: hints.get(p.name, str) for p in parameters if p.kind is p.KEYWORD_ONLY}
        found = named | found
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return found


def option_types(kind: type[Strategy]) -> dict[str, type]:
    """The options as they are typed (``bucket-mb``), with their types."""
    taken = keywords(kind)
    return {name.replace("_", "-"): plain_type(taken[name]) for name in taken if name not in SETTINGS}


def plain_type(hint: Any) -> type:
    """``float`` for ``float | None``, where None stands for an option that is not given."""
    if get_origin(hint) is Literal:
        return hint
    return next((kind for kind in get_args(hint) if kind is not type(None)), hint)


def parse_options(name: str, kind: type[Strategy], given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for the constructor. Unknown options and values of the wrong type are refused."""
    types = option_types(kind)
    found = {}
    for key, value in given.items():
        option = key.replace("_", "-")
        if option not in types:
            raise unknown(f"option of {name}", option, types)
        found[option.replace("-", "_")] = parse_value(option, value, types[option])
    return found


def parse_value(option: str, value: Any, kind: type) -> Any:
    try:
        return parsed(str(value), kind)
    except ValueError:
        raise InputError(f"--options.{option} is {value}: it must be {must_be(kind)}.") from None
