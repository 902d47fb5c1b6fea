"""What every command shows, as plain data: tables, charts and sentences. draw/ renders them in every medium.

A figure is computed once and takes its form here; the terminal, the page, CSV and LaTeX all show the same one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gradsync.figures.value import Value, written


@dataclass(frozen=True)
class Column:
    """``form`` says how a number is written: ``.2f``, ``,d``, ``.1%``. Default: 3 significant digits; PRECISE: 4."""

    name: str
    unit: str = ""
    form: str | Sequence[str] = ""
    """One for all rows, or one for each where every row is another figure."""

    @property
    def heading(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def text(self, value: Value, row: int = 0) -> str:
        return written(value, self.form if isinstance(self.form, str) else self.form[row])


@dataclass(frozen=True)
class Table:
    """``notes``: what a reader must know to read the figures correctly, a sentence each."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    notes: Sequence[str] = ()

    def texts(self) -> list[list[str]]:
        return [
            [column.text(value, number) for column, value in zip(self.columns, row, strict=True)]
            for number, row in enumerate(self.rows)
        ]


@dataclass(frozen=True)
class Axis:
    """A field of the chart's rows, and how it is drawn."""

    field: str
    title: str
    unit: str = ""
    log: bool = False
    zero: bool = True
    """Whether a numeric axis begins at 0."""

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


def is_wide(values: Sequence[float]) -> bool:
    """Whether an axis with these values is logarithmic."""
    return min(values, default=0) > 0 and max(values) / min(values) >= 10


Mark = dict[str, str | int | float | None]
"""One mark of a chart: the values of its fields."""

Kind = Literal["bars", "stack", "lines", "points", "spans"]

IDEAL = "ideal"  # a series of this name is the theoretical best, drawn dashed
PUBLISHED, OURS = "published", "ours"


@dataclass(frozen=True)
class Chart:
    """One picture. ``rows`` are its data, one mark each.

    - bars: one bar per x; several side by side where ``colour`` differs
    - stack: one bar per x, its parts (by ``colour``) stacked in the order of the rows
    - lines: y over x, one line per ``colour``, with a mark at each point
    - points: y over x, a labelled mark each; ``colour`` is the label
    - spans: from ``x`` to ``until`` along time, one row per y, the part named by ``colour``
    """

    title: str
    kind: Kind
    rows: Sequence[Mark]
    x: Axis
    y: Axis
    colour: str = ""
    """The field whose values get a colour each. Ledger parts, strategies, published and ours have fixed ones."""

    panel: str = ""
    """The field whose values get a panel each, side by side."""

    until: str = ""
    """The field with the end of a span."""

    deviation: str = ""
    """The field with the standard deviation of y, drawn as an error bar."""

    notes: Sequence[str] = ()


Exhibit = Table | Chart


@dataclass(frozen=True)
class Section:
    title: str
    exhibits: Sequence[Exhibit] = ()
    sentences: Sequence[str] = ()
    """What the exhibits show, worked out from the same figures."""

    doubts: Sequence[str] = ()
    """Those of its sentences that a reader must know before believing any other."""

    detail: bool = False
    """Whether a terminal omits it unless asked for details; a page shows it always."""

    failures: bool = False
    """Whether it is about runs that were not completed, which a command reports last and on stderr."""


@dataclass(frozen=True)
class Document:
    """One report, in any medium."""

    title: str
    summary: Sequence[str]
    """The findings in plain sentences, most important first."""

    sections: Sequence[Section]
    command: str = ""
    """The command that reproduces it."""

    environment: Table | None = None
    left_out: Sequence[str] = field(default_factory=tuple)
    """What was found but is not included, and why."""

    def unsaid(self, section: Section) -> list[str]:
        """Its sentences that are not among the findings above."""
        return [sentence for sentence in section.sentences if sentence not in self.summary]

    @property
    def exhibits(self) -> list[Exhibit]:
        return [exhibit for section in self.sections for exhibit in section.exhibits]


def doubts_first(sections: Sequence[Section], doubts: Sequence[str] = ()) -> list[Section]:
    """Each sentence once, and in the first section before all others the doubts: of all sections, then these."""
    first = [*dict.fromkeys([*(each for section in sections for each in section.doubts), *doubts])]
    said = set(first)
    found = []
    for section in sections:
        others = [sentence for sentence in dict.fromkeys(section.sentences) if sentence not in said]
        said.update(others)
        found.append(replace(section, sentences=[*first, *others], doubts=first))
        first = []
    return found


def slug(title: str) -> str:
    """A name for a file."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
