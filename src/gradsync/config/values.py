"""What a value of a setting must be: its type, read from its field, and its limits, listed here for all settings.

This is also the one place that parses text into a value of a type: for flags, varied settings and options.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import fields
from functools import cache
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gradsync.errors import InputError

# Setting -> least and greatest value, for every setting of that name; for a list, each value in it.
# The greatest is far above what anybody runs, and far below what would fill memory or take a day to count to.
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("workers", "nodes", "workers_per_node", "node_counts", "per_node"), (1, 10_000)),
    **dict.fromkeys(("batch_size", "batch_per_worker", "batch_sizes"), (1, 1_000_000)),
    **dict.fromkeys(("train_samples", "test_samples"), (1, 100_000_000)),
    "servers": (0, 1_000),
    "threads": (1, 1_024),
    "loader_processes": (0, 256),
    "accumulate": (1, 1_000_000),
    "epochs": (1, 1_000_000),
    "steps": (1, 1_000_000_000),
    "log_every": (1, 1_000_000_000),
    "repeat": (1, 1_000),
    "iterations": (1, 100_000),
    "seed": (0, 2**31 - 1),  # rank and repeat are added to it, and numpy takes 32 bits
    "lr": (0, 1e38),  # what a float32 holds
    "momentum": (0, 1),
    "clip_norm": (1e-8, 1e8),
    "weight_decay": (0, 1e6),
    "warmup_epochs": (0, 1e6),
    "decay_epochs": (0, 1e6),
    "cpus": (0.1, 1_024),  # the kernel hands out at least a millisecond in every ten
    "timeout": (1, 86_400),
    "seconds": (0.001, 3_600),
}
MOST_VALUES = 1_000  # in one list
LONGEST_TEXT = 100_000
SHOWN_CHARACTERS = 60
NO_TEXT = {"Cc": "a control character", "Cs": "a lone surrogate", "Zl": "a line break", "Zp": "a line break"}


def is_reference(name: str) -> bool:
    """Whether it names the user's own code: package.module:function or path/file.py:function."""
    return ":" in name


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def counted(count: int, noun: str, several: str = "") -> str:
    """1 worker, 2 workers."""
    return f"{count} {noun if count == 1 else several or f'{noun}s'}"


def shown(value: Any) -> str:
    """A value as a message shows it: on one line, and cut off if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python prints no number of more than 4,300 digits
        text = "too long to show"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def parsed(text: str, kind: Any) -> Any:
    """Parse text as a value of a type; lists are comma-separated. ValueError if it does not fit the type."""
    if get_origin(kind) is tuple:
        return tuple(parsed(part, get_args(kind)[0]) for part in listed(text))
    for one in kinds_in(kind):
        with suppress(ValueError):
            return parsed_plainly(text, one)
    raise ValueError(f"{shown(text)} is not {must_be(kind)}")


def parsed_plainly(text: str, kind: Any) -> Any:
    if kind is bool:
        return parsed_plainly(text.lower(), Literal["true", "false"]) == "true"
    if get_origin(kind) is Literal and text not in get_args(kind):
        raise ValueError(text)
    return kind(text) if kind in (int, float, Path) else text


def listed(text: str) -> list[str]:
    """The parts between commas."""
    return [part for part in text.split(",") if part]


def kinds_in(hint: Any) -> list[Any]:
    """The types one value of a setting may have: int for ``int | None``, and for ``tuple[int, ...]``."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return [get_args(kind)[0] if get_origin(kind) is tuple else kind for kind in kinds if kind is not type(None)]


def must_be(hint: Any) -> str:
    """A whole number, one of these, a path: what one value of a setting must be, in words."""
    return " or ".join(map(describe, kinds_in(hint)))


def quantity(name: str, text: str | None, units: dict[str, float], example: str) -> float | None:
    """``1gbit``, ``0.2ms``, ``4GB`` in the unit whose factor is 1; case does not matter."""
    if text is None:
        return None
    for unit, factor in sorted(units.items(), key=lambda item: -len(item[0])):
        number = text.lower().removesuffix(unit.lower())
        if number != text.lower():
            try:
                value = float(number) * factor
            except ValueError:
                break
            if isfinite(value):
                return value
    allowed = ", ".join(units)
    raise InputError(f"{flag(name)} is {shown(text)}: it must be a number with {allowed}, for instance {example}.")


def at_least(config: Any, name: str, least: int) -> None:
    value = getattr(config, name)
    if value is not None and not value >= least:
        raise InputError(f"{flag(name)} is {shown(value)}: it must be {least} or more.")


def between(name: str, value: Any, least: float, most: float) -> None:
    """Refuse a number, or any number of a list, that is not within these limits. NaN never is."""
    several = isinstance(value, (tuple, list))
    for item in value if several else (value,):
        if not least <= item <= most:
            given = f"has {shown(item)}: each" if several else f"is {shown(item)}: it"
            raise InputError(f"{flag(name)} {given} must be from {least:,} to {most:,.12g}.")


def check_values(config: Any) -> None:
    """Check types, limits, and that text is on one line. Flags arrive with the right type; files and Python may not.

    This comes before anything is computed from the values: a list or a loop of 10⁹ would not come to an end.
    """
    hints = types_of(config.__class__)
    for item in fields(config):
        value, hint = getattr(config, item.name), hints[item.name]
        allowed = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if not any(fits(value, kind) for kind in allowed):
            names = [describe(kind) for kind in allowed if kind is not type(None)]
            raise InputError(f"{flag(item.name)} is {shown(value)}: it must be {' or '.join(names)}.")
        if isinstance(value, (tuple, list, dict)) and len(value) > MOST_VALUES:
            raise InputError(f"{flag(item.name)} has {len(value):,} values: it takes at most {MOST_VALUES:,}.")
        if isinstance(value, list):  # TOML and JSON have no tuples
            setattr(config, item.name, tuple(value))
        for text in texts_in(value):
            one_line(flag(item.name), text)
        if value is not None and item.name in LIMITS:
            between(item.name, value, *LIMITS[item.name])


@cache
def types_of(kind: Hashable) -> dict[str, Any]:
    """The types of the fields of a class."""
    return get_type_hints(kind)


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from (item for item in pair if isinstance(item, str))
    elif isinstance(value, (tuple, list)):
        yield from (item for item in value if isinstance(item, str))


def one_line(what: str, text: str) -> None:
    """Names, paths and commands go into scripts, where text after a line break would be a command."""
    if len(text) > LONGEST_TEXT:
        raise InputError(f"{what} has {len(text):,} characters: the limit is {LONGEST_TEXT:,}.")
    for character in text:
        if kind := NO_TEXT.get(unicodedata.category(character)):
            raise InputError(f"{what} is {shown(text)}, with {kind} ({character!a}) in it: it must be plain text.")


def fits(value: Any, kind: Any) -> bool:
    origin = get_origin(kind)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(kind)
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
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "a path"}
    return names.get(kind, "a table" if get_origin(kind) is dict else "a list")
