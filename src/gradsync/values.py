"""What a value of a setting must be, told from the type of its field."""

from __future__ import annotations

from dataclasses import fields
from math import isfinite
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gradsync.errors import InputError


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def counted(count: int, noun: str) -> str:
    """1 worker, 2 workers."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def quantity(name: str, text: str | None, units: dict[str, float], example: str) -> float | None:
    """``1gbit``, ``0.2ms``, ``4GB`` in the unit that counts 1; capitals do not matter."""
    if text is None:
        return None
    for unit, factor in sorted(units.items(), key=lambda item: -len(item[0])):
        number = text.lower().removesuffix(unit.lower())
        if number != text.lower():
            try:
                value = float(number)
            except ValueError:
                break
            if isfinite(value):
                return value * factor
    allowed = ", ".join(units)
    raise InputError(f"{flag(name)} is {text!r}: it must be a number with {allowed}, for instance {example}.")


def at_least(config: Any, name: str, least: int) -> None:
    value = getattr(config, name)
    if value is not None and not value >= least:
        raise InputError(f"{flag(name)} is {value}: it must be {least} or more.")


def check_types(config: Any) -> None:
    """Flags arrive with the right type; files and Python callers may not."""
    hints = get_type_hints(type(config))
    for item in fields(config):
        value, hint = getattr(config, item.name), hints[item.name]
        allowed = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if not any(fits(value, kind) for kind in allowed):
            names = [describe(kind) for kind in allowed if kind is not type(None)]
            raise InputError(f"{flag(item.name)} is {value!r}: it must be {' or '.join(names)}.")


def fits(value: Any, kind: Any) -> bool:
    origin = get_origin(kind)
    if origin is Literal:
        return value in get_args(kind)
    if origin is tuple:
        return isinstance(value, (tuple, list)) and all(fits(item, get_args(kind)[0]) for item in value)
    if origin is not None:
        return isinstance(value, origin)
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def describe(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    return names.get(kind, "a table" if get_origin(kind) is dict else "a list")
