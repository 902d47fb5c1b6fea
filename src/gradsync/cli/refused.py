"""What was wrong with a command line that the parser has refused: a sentence instead of the parser's own report."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_origin

from gradsync.cli.flags import WITH_COMMAS, Flag, flags_of
from gradsync.config.values import flag, listed, must_be, parsed, shown
from gradsync.errors import InputError, unknown

OPTIONS = ("--options.", "--model-options.")
"""What a flag for one option begins with."""

EXAMPLES = {"options": "bucket-mb 25", "model_options": "width 256"}
FRAME = re.compile(r"[│╭╮╰╯─]+")
HELP = re.compile(r"(Argument helptext:|For full helptext).*", re.DOTALL)


def explain(argv: Sequence[str], command: Any, place: str, report: str) -> InputError:
    """The first thing that is wrong.

    ``command``: the class the parser was given; ``place``: what was typed before; ``report``: what it reported.
    """
    words = list(argv)
    while known := getattr(command, "actions", None):
        word = words.pop(0) if words and not words[0].startswith("-") else None
        if word is None:
            return InputError(f"{place} needs a command. Name one of {', '.join(known)}; or see {place} --help.")
        if word not in known:
            return unknown(f"command of {place}:", word, known)
        command, place = known[word], f"{place} {word}"
    found = next(complaints(place, list(flags_of(command)), words), None)
    return InputError(found or f"{as_sentence(report)} HINT: see {place} --help.")


def complaints(place: str, flags: Sequence[Flag], words: Sequence[str]) -> Iterator[str]:
    """What is wrong, word by word, as far as the types show it."""
    by_name = {name: item for item in flags for name in item.spellings}
    loose: list[str] = []
    apart: list[str] = []  # those with a flag between them and an earlier one
    after_flag = False
    remaining = list(words)
    while remaining:
        word, equals, value = remaining.pop(0).partition("=")
        if not is_flag(word):
            apart += [word + equals + value] if loose and after_flag else []
            loose.append(word + equals + value)
            after_flag = False
            continue
        after_flag = True
        if holder := next((by_name.get(begin[:-1]) for begin in OPTIONS if word.startswith(begin)), None):
            if word in OPTIONS:
                yield f"{word} needs the name of an option, for instance {word}{EXAMPLES[holder.name]}."
            if not equals and (not remaining or remaining.pop(0).startswith("--")):
                yield f"{word} needs a value: {word} VALUE."
            continue
        item = by_name.get(flag(word.removeprefix("--")) if word.startswith("--") else word)
        if item is None:
            near = difflib.get_close_matches(word, by_name, n=3, cutoff=0.5)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            yield f"{place} has no flag {shown(word)}.{meant} HINT: {place} --help lists them."
            continue
        yield from complaints_about(item, word, [value] if equals else taken(item, remaining))
    yield from complaints_about_places(place, [item for item in flags if item.is_positional], loose)
    if apart:
        where = "where it stands: give all arguments before the flags"
        yield f"gradsync cannot read {shown(apart[0])} {where}. HINT: see {place} --help."


def is_flag(word: str) -> bool:
    """Whether a word is a flag: -5 and -inf are numbers."""
    return re.match(r"--?[A-Za-z]", word) is not None and not re.fullmatch(r"-(inf|nan)", word, re.IGNORECASE)


def taken(item: Flag, remaining: list[str]) -> list[str]:
    """The words that are a flag's values, taken from what remains."""
    values: list[str] = []
    while item.kind is not bool and remaining and not is_flag(remaining[0]) and (item.takes_several or not values):
        values.append(remaining.pop(0))
    return values


def complaints_about(item: Flag, typed: str, values: Sequence[str]) -> Iterator[str]:
    if item.kind is bool:
        if values:
            yield f"{typed} is {shown(values[0])}: it takes no value. Give {' or '.join(item.spellings)}."
    elif get_origin(item.kind) is dict:
        if len(values) % 2:
            last = shown(values[-1])
            yield f"{typed} ends with {last}: every name needs a value, for instance {typed}.{EXAMPLES[item.name]}."
    elif not values and not item.takes_several:
        yield f"{typed} needs a value: it must be {must_be(item.kind)}."
    elif get_origin(item.kind) is tuple:
        parts = values if item.name in WITH_COMMAS else [part for value in values for part in listed(value)]
        for value in parts:
            if not can_be(value, get_args(item.kind)[0]):
                yield f"{typed} has {shown(value)}: each must be {must_be(item.kind)}."
    elif not can_be(values[0], item.kind):
        yield f"{typed} is {shown(values[0])}: it must be {must_be(item.kind)}."


def complaints_about_places(place: str, places: Sequence[Flag], loose: Sequence[str]) -> Iterator[str]:
    required = [item.name.upper() for item in places if item.is_required]
    several = any(item.takes_several for item in places)
    if len(loose) < len(required):
        yield f"{place} needs {' and '.join(required[len(loose) :])}. HINT: see {place} --help."
    if len(loose) > len(places) and not several:
        yield f"{place} does not know what to do with {shown(loose[len(places)])}. HINT: see {place} --help."


def can_be(text: str, kind: Any) -> bool:
    try:
        parsed(text, kind)
    except ValueError:
        return False
    return True


def as_sentence(report: str) -> str:
    """The text of the parser's box, without its title, its frame, and its pointer to --help."""
    lines = [line for line in report.splitlines() if not line.startswith("╭")]
    words = " ".join(FRAME.sub(" ", HELP.sub("", "\n".join(lines))).split())
    return words if words.endswith((".", "!")) else f"{words}."
