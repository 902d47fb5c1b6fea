"""Whether a value read from JSON has the shape it was declared with: types, limits, no key missing.

A declaration is a dataclass, a TypedDict, or a type made of these: int, float, str, bool, Literal, list, dict, tuple
(a JSON list of that length), a union with None, and Annotated with ``Within`` or ``Filled``. It is turned into the
source of one function, as a dataclass is. Checking the row of a step took 10 µs with a function for every part and
takes 3 with this one; reading its JSON takes 7.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from gradsync.config.values import shown

MOST = 10**18  # the largest number allowed: sums and products of a few are still finite
MOST_ITEMS = 1_000_000


class Wrong(Exception):
    """What is wrong with a value: a sentence that begins with the field."""


@dataclass(frozen=True)
class Within:
    """Limits of a number, both included."""

    least: float
    most: float = MOST


@dataclass(frozen=True)
class Filled:
    """The list must not be empty."""


@cache
def checker(kind: Any) -> Callable[[Any], None]:
    """The function that checks a declared type: it raises ``Wrong``, and fills in what older versions did not write.

    A missing key becomes null where null is allowed, and an empty list where an empty list is allowed.
    """
    source = CheckerSource()
    source.add(kind, "value", "")
    found: dict[str, Any] = {"refuse": refuse, "Wrong": Wrong}
    exec("\n".join(["def check(value):", *source.lines]), found)
    return found["check"]


def refuse(value: Any, field: str, wanted: str) -> None:
    raise Wrong(f"{field or 'it'} is {shown(value)}, not {wanted}")


class CheckerSource:
    """The lines of the function. ``name``: the variable that holds a value; ``field``: its place in the JSON."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 1
        self._numbers = itertools.count()

    def put(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    def new_name(self) -> str:
        return f"value{next(self._numbers)}"

    def require(self, condition: str, name: str, field: str, wanted: str) -> None:
        self.put(f"if not ({condition}): refuse({name}, {field!r}, {wanted!r})")

    def inside(self, line: str, kind: Any, name: str, field: str) -> None:
        """Add a line that opens a block, and the check of a value inside it."""
        self.put(line)
        self._depth += 1
        self.add(kind, name, field)
        self._depth -= 1

    def add(self, kind: Any, name: str, field: str, limits: Any = None) -> None:
        origin, parts = get_origin(kind), get_args(kind)
        if origin is Annotated:
            self.add(parts[0], name, field, parts[1])
        elif origin in (Union, UnionType):
            (present,) = (part for part in parts if part is not NoneType)
            self.inside(f"if {name} is not None:", present, name, field)
        elif origin is Literal:
            self.require(f"type({name}) is str and {name} in {parts!r}", name, field, " or ".join(parts))
        elif origin is list:
            self.add_list(parts[0], name, field, int(isinstance(limits, Filled)))
        elif origin is tuple:
            self.add_tuple(parts, name, field)
        elif origin is dict:
            self.require(f"type({name}) is dict", name, field, "a table")
            item = self.new_name()
            self.inside(f"for {item} in {name}.values():", parts[1], item, f"{field}{{}}")
        elif is_typeddict(kind) or is_dataclass(kind):
            self.add_table(kind, name, field)
        else:
            self.add_simple(kind, name, field, limits or Within(-MOST))

    def add_simple(self, kind: Any, name: str, field: str, limits: Within) -> None:
        """Types are compared exactly, because a bool is an int too."""
        size = f"{limits.least!r} <= {name} <= {limits.most!r}"
        wanted = f"from {limits.least:g} to {limits.most:g}"
        if kind is int:
            self.require(f"type({name}) is int and {size}", name, field, f"a whole number {wanted}")
        elif kind is float:
            self.require(
                f"(type({name}) is float or type({name}) is int) and {size}", name, field, f"a number {wanted}"
            )
        elif kind is Any:
            self.put("pass")
        else:
            words = {str: "text", bool: "true or false"}[kind]
            self.require(f"type({name}) is {kind.__name__}", name, field, words)

    def add_list(self, kind: Any, name: str, field: str, fewest: int) -> None:
        self.require(
            f"type({name}) is list and {fewest} <= len({name}) <= {MOST_ITEMS}", name, field, "a list of valid length"
        )
        item = self.new_name()
        self.inside(f"for {item} in {name}:", kind, item, f"{field}[]")

    def add_tuple(self, kinds: tuple[Any, ...], name: str, field: str) -> None:
        self.require(f"type({name}) is list and len({name}) == {len(kinds)}", name, field, f"a list of {len(kinds)}")
        items = [self.new_name() for _ in kinds]
        self.put(f"{', '.join(items)} = {name}")
        for number, (kind, item) in enumerate(zip(kinds, items, strict=True)):
            self.add(kind, item, f"{field}[{number}]")

    def add_table(self, kind: Any, name: str, field: str) -> None:
        """Keys that are not declared are ignored: a later version may know them."""
        self.require(f"type({name}) is dict", name, field, "a table")
        for key, hint in hints_of(kind).items():
            item, place = self.new_name(), f"{field}.{key}" if field else key
            self.put(f"if {key!r} in {name}:")
            self._depth += 1
            self.put(f"{item} = {name}[{key!r}]")
            self.add(hint, item, place)
            self._depth -= 1
            if key in required(kind):
                empty = "None" if NoneType in get_args(hint) else "[]" if get_origin(hint) is list else ""
                absent = f"{name}[{key!r}] = {empty}" if empty else f"raise Wrong({place + ' is missing'!r})"
                self.put(f"else: {absent}")


def required(kind: Any) -> set[str]:
    """The keys a table must have, unless what is missing can be filled in."""
    if is_typeddict(kind):
        return set(kind.__required_keys__)
    return {item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING}


def built(kind: Any, value: Any) -> Any:
    """A checked value with its tables as the dataclasses they were declared as. Other keys are dropped."""
    origin, parts = get_origin(kind), get_args(kind)
    if value is None:
        return None
    if origin is Annotated:
        return built(parts[0], value)
    if origin in (Union, UnionType):
        return built(next(part for part in parts if part is not NoneType), value)
    if origin is list:
        return [built(parts[0], item) for item in value]
    if origin is dict:
        return {key: built(parts[1], item) for key, item in value.items()}
    if not is_dataclass(kind) or isinstance(value, kind):  # type: ignore[arg-type] # a class
        return value
    hints = hints_of(kind)  # type: ignore[arg-type] # a class
    return kind(**{name: built(hints[name], item) for name, item in value.items() if name in hints})  # type: ignore[operator] # a class


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
