"""A table as text, for every format meant for reading rather than computing: all of them show the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradsync.exhibit.form import Column, Table

UNSEEN = re.compile(r"[ \x00-\x1f\x7f-\x9f\u2028\u2029]+")

LONG = 32  # letters
FEWEST_SPACES = 3  # of a sentence


@dataclass(frozen=True)
class Cells:
    """Columns without any value are left out; numbers are right-aligned, text left-aligned."""

    columns: Sequence[Column]
    is_text: Sequence[bool]
    rows: Sequence[Sequence[str]]

    def texts(self, index: int) -> list[str]:
        return [row[index] for row in self.rows]

    def is_prose(self, index: int) -> bool:
        """Whether a column has sentences, which are broken between words, rather than names, which are not."""
        return self.is_text[index] and any(
            len(text) > LONG and text.count(" ") >= FEWEST_SPACES for text in self.texts(index)
        )

    def is_long(self, index: int) -> bool:
        """Whether a column has names so long that they leave little room for other columns."""
        return (
            self.is_text[index] and not self.is_prose(index) and any(len(text) > LONG for text in self.texts(index))
        )


def cells(table: Table) -> Cells:
    shown = [index for index in range(len(table.columns)) if any(row[index] is not None for row in table.rows)]
    if not table.rows:
        shown = list(range(len(table.columns)))
    return Cells(
        [shown_as(table.columns[index]) for index in shown],
        [any(isinstance(row[index], str) for row in table.rows) for index in shown],
        [[one_line(row[index]) for index in shown] for row in table.texts()],
    )


def cells_as_text(table: Table) -> tuple[list[str], list[list[str]]]:
    """The headings and the rows, as every format writes them before it escapes what would be markup there."""
    found = cells(table)
    return [column.heading for column in found.columns], [list(row) for row in found.rows]


def shown_as(column: Column) -> Column:
    return replace(column, name=one_line(column.name), unit=one_line(column.unit))


def one_line(text: str) -> str:
    """A name may contain line breaks or control characters, which a terminal would obey."""
    return UNSEEN.sub(" ", text).strip(" ")
