"""Prose in lines: broken between words, and only there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len

BREAK = re.compile(r" (?![±%×])(?<![±×] )")  # a number stays with its deviation and its sign


def words(text: str) -> list[str]:
    return [word for word in BREAK.split(text) if word]


def wrapped(text: str, width: int) -> list[str]:
    """At least one line. A word that is longer than the width has a line to itself."""
    lines: list[str] = []
    for word in words(text):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


def longest(texts: Sequence[str]) -> int:
    """The greatest width, in cells of the terminal: some letters take two."""
    return max(map(cell_len, texts), default=0)


def longest_word(text: str) -> int:
    return longest(words(text))


def to_the_left(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def to_the_right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def least_width(text: str, lines: int) -> int:
    """The narrowest width at which the text takes no more than ``lines`` lines."""
    width = longest_word(text)
    while len(wrapped(text, width)) > lines:
        width += 1
    return width
