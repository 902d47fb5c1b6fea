"""What was wrong with a command line that the parser has refused: a sentence instead of the parser's own report."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from tyro.conf import FlagCreatePairsOff, Positional, Suppress, subcommand

from gradsync.errors import InputError, unknown
from gradsync.values import describe, fits, flag, shown

SUBCOMMAND: Any = type(subcommand(""))
POSITIONAL, HIDDEN, ONE_WAY = (marker[int].__metadata__[0] for marker in (Positional, Suppress, FlagCreatePairsOff))
FRAME = re.compile(r"[│╭╮╰╯─]+")
HELP = re.compile(r"(Argument helptext:|For full helptext).*", re.DOTALL)


class Argument(NamedTuple):
    """A field of a command, as it is typed."""

    name: str
    kind: Any
    notes: tuple[Any, ...]
    is_required: bool

    @property
    def kinds(self) -> list[Any]:
        """What one value of it may be."""
        kinds = get_args(self.kind) if get_origin(self.kind) in (Union, UnionType) else (self.kind,)
        return [get_args(kind)[0] if get_origin(kind) is tuple else kind for kind in kinds if kind is not type(None)]

    @property
    def flags(self) -> list[str]:
        if POSITIONAL in self.notes:
            return []
        aliases = [alias for note in self.notes for alias in getattr(note, "aliases", None) or ()]
        both_ways = self.kind is bool and ONE_WAY not in self.notes
        return [flag(self.name), *([flag(f"no_{self.name}")] if both_ways else []), *aliases]


def explain(argv: Sequence[str], commands: Any, place: str, report: str) -> InputError:
    """The first thing that is wrong.

    ``commands``: the classes the parser was given; ``place``: what was typed before; ``report``: what it has said.
    """
    words = list(argv)
    while known := subcommands(commands):
        word = words.pop(0) if words and not words[0].startswith("-") else None
        if word is None:
            return InputError(f"{place} what? Name one of {', '.join(known)}; or see {place} --help.")
        if word not in known:
            return unknown(f"command of {place}:", word, known)
        commands, place = known[word], f"{place} {word}"
    found = next(complaints(place, list(arguments_of(commands)), words), None)
    return InputError(found or f"{as_sentence(report)} HINT: see {place} --help.")


def subcommands(kind: Any) -> dict[str, Any]:
    """name -> class, of a union of them or of a class whose ``action`` is one."""
    if is_dataclass(kind):
        kind = get_type_hints(kind, include_extras=True).get("action")
    return {
        note.name: item.__origin__
        for item in get_args(kind)
        for note in getattr(item, "__metadata__", ())
        if isinstance(note, SUBCOMMAND)
    }


def arguments_of(kind: Any) -> Iterator[Argument]:
    """The fields of a class, and of the classes in it that hand theirs up."""
    generic = get_origin(kind) or kind
    bound = dict(zip(getattr(generic, "__parameters__", ()), get_args(kind), strict=True))
    hints = get_type_hints(generic, include_extras=True)
    for item in fields(generic):
        hint, notes = hints[item.name], ()
        if get_origin(hint) is Annotated:
            hint, notes = hint.__origin__, hint.__metadata__
        if isinstance(hint, TypeVar):
            hint = bound[hint]
        if is_dataclass(hint):
            yield from arguments_of(hint)
        elif HIDDEN not in notes:
            is_required = item.default is MISSING and item.default_factory is MISSING
            yield Argument(item.name, hint, notes, is_required)


def complaints(place: str, arguments: Sequence[Argument], words: Sequence[str]) -> Iterator[str]:
    """What is wrong, word by word, as far as it can be told from the types."""
    by_flag = {name: argument for argument in arguments for name in argument.flags}
    places = [argument for argument in arguments if POSITIONAL in argument.notes]
    loose: list[str] = []
    remaining = list(words)
    while remaining:
        word, equals, value = remaining.pop(0).partition("=")
        if not is_flag(word):
            loose.append(word + equals + value)
            continue
        argument = by_flag.get(flag(word.removeprefix("--")) if word.startswith("--") else word)
        if argument is None:
            near = difflib.get_close_matches(word, by_flag, n=3, cutoff=0.5)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            yield f"{place} has no flag {shown(word)}.{meant} HINT: {place} --help lists them."
            continue
        values = [value] if equals else taken(argument, remaining)
        yield from complaints_about(argument, word, values)
    yield from complaints_about_places(place, places, loose)


def is_flag(word: str) -> bool:
    """-5 and -inf are numbers."""
    return re.match(r"--?[A-Za-z]", word) is not None and not re.fullmatch(r"-(inf|nan)", word, re.IGNORECASE)


def taken(argument: Argument, remaining: list[str]) -> list[str]:
    """The words that are a flag's values, taken from what remains."""
    if argument.kind is bool:
        return []
    several = get_origin(argument.kind) in (tuple, dict)
    values: list[str] = []
    while remaining and not is_flag(remaining[0]) and (several or not values):
        values.append(remaining.pop(0))
    return values


def complaints_about(argument: Argument, typed: str, values: Sequence[str]) -> Iterator[str]:
    if argument.kind is bool:
        if values:
            yield f"{typed} is {shown(values[0])}: it takes no value. Give {' or '.join(argument.flags)}."
    elif not values and get_origin(argument.kind) not in (tuple, dict):
        yield f"{typed} needs a value: it must be {what_it_must_be(argument)}."
    if get_origin(argument.kind) is dict and len(values) % 2:
        yield f"{typed} ends with {shown(values[-1])}: every name needs a value, for instance {typed}.bucket-mb 25."
    for value in values if argument.kind is not bool and get_origin(argument.kind) is not dict else ():
        if not any(can_be(value, kind) for kind in argument.kinds):
            several = get_origin(argument.kind) is tuple
            given = f"has {shown(value)}: each" if several else f"is {shown(value)}: it"
            yield f"{typed} {given} must be {what_it_must_be(argument)}."


def complaints_about_places(place: str, places: Sequence[Argument], loose: Sequence[str]) -> Iterator[str]:
    required = [argument.name.upper() for argument in places if argument.is_required]
    several = any(get_origin(argument.kind) is tuple for argument in places)
    if len(loose) < len(required):
        yield f"{place} needs {' and '.join(required[len(loose) :])}. HINT: see {place} --help."
    if len(loose) > len(places) and not several:
        yield f"{place} does not know what to do with {shown(loose[len(places)])}. HINT: see {place} --help."


def can_be(text: str, kind: Any) -> bool:
    if kind in (int, float):
        try:
            kind(text)
        except ValueError:
            return False
        return True
    return kind is Path or fits(text, kind)


def what_it_must_be(argument: Argument) -> str:
    return " or ".join("a path" if kind is Path else describe(kind) for kind in argument.kinds)


def as_sentence(report: str) -> str:
    """What the parser has drawn as a box: without its title, its frame, and what it says of --help."""
    lines = [line for line in report.splitlines() if not line.startswith("╭")]
    words = " ".join(FRAME.sub(" ", HELP.sub("", "\n".join(lines))).split())
    return words if words.endswith((".", "!")) else f"{words}."
