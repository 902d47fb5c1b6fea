"""A table as text, for every format that is read rather than computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradsync.exhibit import Column, Table


@dataclass(frozen=True)
class Cells:
    """A column without any value is left out; numbers are to the right, text to the left."""

    columns: Sequence[Column]
    is_text: Sequence[bool]
    rows: Sequence[Sequence[str]]


def cells(table: Table) -> Cells:
    shown = [index for index in range(len(table.columns)) if any(row[index] is not None for row in table.rows)]
    if not table.rows:
        shown = list(range(len(table.columns)))
    return Cells(
        [table.columns[index] for index in shown],
        [any(isinstance(row[index], str) for row in table.rows) for index in shown],
        [[row[index] for index in shown] for row in table.texts()],
    )
