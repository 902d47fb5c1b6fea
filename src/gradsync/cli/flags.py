"""The flags of a command, read from its class: one per field, with its type, default, help and group."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from tyro.conf import FlagCreatePairsOff, Positional

from gradsync.config.placement import Placement
from gradsync.config.training import Compute, Measuring, Output, Recipe, TaskSettings
from gradsync.config.values import flag, kinds_in

POSITIONAL, ONE_WAY = (marker[int].__metadata__[0] for marker in (Positional, FlagCreatePairsOff))
ONE_WORD = "one word"
"""Marks a list that is typed as one comma-separated word, as positional arguments may follow it."""

# Group -> what its flags are about. A setting without a group belongs to one command alone, and to the first group.
GROUPS = {
    "what": "The model, its data, and what is varied.",
    "how": "Batches, optimizer, learning-rate schedule, and synchronization.",
    "where": "Processes, devices and nodes.",
    "measuring": "What is measured and tested, and how often.",
    "output": "What is read, printed and written.",
}
GROUP_OF = {
    **{
        item.name: group
        for kind, group in {
            TaskSettings: "what",
            Recipe: "how",
            Compute: "where",
            Placement: "where",
            Measuring: "measuring",
            Output: "output",
        }.items()
        for item in fields(kind)
    },
    **dict.fromkeys(("strategy", "strategies", "workers", "servers", "transport", "options"), "how"),
    **dict.fromkeys(("print",), "where"),
    **dict.fromkeys(("repeat", "iterations", "seconds"), "measuring"),
    **dict.fromkeys(("config", "columns", "csv", "folder", "json", "details"), "output"),
}

# Other names for the same flag: Slurm's, and the one that other commands use.
ALIASES = {
    "workers_per_node": ("--ntasks-per-node",),
    "strategy": ("--strategies",),
    "strategies": ("--strategy",),
}
WITH_COMMAS = ("vary", "sbatch")
"""Lists whose values may contain commas, and are therefore separated by spaces."""


class Flag(NamedTuple):
    """A field of a command, as it is typed."""

    name: str
    kind: Any
    notes: tuple[Any, ...]
    """The annotations of the field in addition to its type."""

    default: Any
    owner: Any
    """The class that has the field."""

    @property
    def kinds(self) -> list[Any]:
        """The types one value of it may have."""
        return kinds_in(self.kind)

    @property
    def is_positional(self) -> bool:
        return POSITIONAL in self.notes

    @property
    def is_one_way(self) -> bool:
        """Off unless it is typed."""
        return ONE_WAY in self.notes

    @property
    def is_required(self) -> bool:
        return self.default is MISSING

    @property
    def takes_several(self) -> bool:
        return get_origin(self.kind) in (tuple, dict) and ONE_WORD not in self.notes

    @property
    def aliases(self) -> tuple[str, ...]:
        given = [alias for note in self.notes for alias in getattr(note, "aliases", None) or ()]
        return (*given, *ALIASES.get(self.name, ()))

    @property
    def spellings(self) -> list[str]:
        """Every way to type it."""
        if self.is_positional:
            return []
        negated = [flag(f"no_{self.name}")] if self.kind is bool and not self.is_one_way else []
        return [flag(self.name), *negated, *self.aliases]

    @property
    def group(self) -> str:
        return GROUP_OF.get(self.name, next(iter(GROUPS)))

    @property
    def help(self) -> str:
        return documented(self.owner).get(self.name, "")

    @property
    def hint(self) -> str:
        """The default as it would be typed. If there is none, or it depends on other settings, the help says so."""
        if self.is_one_way or self.default in (None, (), {}):
            return ""
        values = self.default if isinstance(self.default, tuple) else (self.default,)
        return f"(default: {(' ' if self.name in WITH_COMMAS else ',').join(map(as_typed, values))})"


def as_typed(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def flags_of(command: Any) -> Iterator[Flag]:
    """The flags of a command, and of the settings within it."""
    for name, hint, notes, default in hints_of(command):
        if is_dataclass(hint):
            yield from flags_of(hint)
        else:
            yield Flag(name, hint, notes, default, get_origin(command) or command)


def settings_in_command(command: Any) -> tuple[str, Any] | None:
    """The field of a command that holds settings, and their class."""
    return next(((name, hint) for name, hint, _, _ in hints_of(command) if is_dataclass(hint)), None)


@cache
def hints_of(command: Any) -> list[tuple[str, Any, tuple[Any, ...], Any]]:
    """Name, type, notes and default of every field, with the type variable of a generic command filled in."""
    generic = get_origin(command) or command
    bound = dict(zip(getattr(generic, "__parameters__", ()), get_args(command), strict=True))
    hints = get_type_hints(generic, include_extras=True)
    found = []
    for item in fields(generic):
        hint, notes = hints[item.name], ()
        if get_origin(hint) is Annotated:
            hint, notes = hint.__origin__, hint.__metadata__
        if isinstance(hint, TypeVar):
            hint = bound[hint]
        default = item.default if item.default_factory is MISSING or is_dataclass(hint) else item.default_factory()
        found.append((item.name, hint, notes, default))
    return found


@cache
def documented(kind: type) -> dict[str, str]:
    """Field -> the docstring under it, in the class or in one of its bases."""
    found: dict[str, str] = {}
    for part in reversed([part for part in kind.__mro__ if is_dataclass(part)]):
        (made,) = ast.parse(textwrap.dedent(inspect.getsource(part))).body
        assert isinstance(made, ast.ClassDef)
        for pair in pairwise(made.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                    found[name] = " ".join(words.split())
    return found
