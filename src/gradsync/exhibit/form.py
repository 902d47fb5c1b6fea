"""What a study or a report shows, as plain data: tables, charts and sentences. report/ draws them, in every format.

A figure is worked out once, here is its form, and the terminal, the page, CSV and LaTeX all show the same one.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

NOTHING = "–"
PRECISE = "precise"


@dataclass(frozen=True)
class Spread:
    """The mean of repeated measurements, and their standard deviation."""

    mean: float
    deviation: float

    def __format__(self, form: str) -> str:
        return f"{self.mean:{form}} ± {self.deviation:{form}}"


Value = str | int | float | Spread | None


def over_repeats(values: Iterable[float | None]) -> float | Spread | None:
    """One number of several runs that differ in their seed alone; None where one of them has none."""
    found = list(values)
    known = [value for value in found if value is not None]
    if not known or len(known) < len(found):
        return None
    return known[0] if len(known) == 1 else Spread(statistics.fmean(known), statistics.stdev(known))


def mean_of(value: Value) -> float | None:
    """The number of a cell, for arithmetic and charts."""
    if isinstance(value, Spread):
        return value.mean
    return value if isinstance(value, (int, float)) else None


@dataclass(frozen=True)
class Column:
    """``form`` says how a number is written: ``.2f``, ``,d``, ``.1%``. Default: three digits; PRECISE: four."""

    name: str
    unit: str = ""
    form: str = ""

    @property
    def heading(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def text(self, value: Value) -> str:
        if value is None:
            return NOTHING
        if isinstance(value, str):
            return value
        digits = 4 if self.form == PRECISE else 3
        return format(value, default_form(value, digits) if self.form in ("", PRECISE) else self.form)


def default_form(value: int | float | Spread, digits: int = 3) -> str:
    """So many digits that count, and whole numbers in full."""
    size = abs(mean_of(value) or 0.0)
    if isinstance(value, int) or size >= 10 ** (digits - 1):
        return ",d" if isinstance(value, int) else ",.0f"
    if size < 0.1 and size:
        return f".{digits - 1}g"
    before = len(str(int(size))) if size >= 1 else 1
    return f".{digits - before}f"


@dataclass(frozen=True)
class Table:
    """``notes``: what a reader must know to read the figures right, a sentence each."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    notes: Sequence[str] = ()

    def texts(self) -> list[list[str]]:
        return [[column.text(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]


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


Kind = Literal["bars", "stack", "lines", "points", "spans"]

IDEAL = "ideal"  # a series of this name is what could be at best: drawn dashed
PUBLISHED, OURS = "published", "ours"


@dataclass(frozen=True)
class Chart:
    """One picture. ``rows`` are its data, one mark each.

    - bars: one bar per x; several beside each other where ``colour`` differs
    - stack: one bar per x, its parts by ``colour`` above each other, in the order of the rows
    - lines: y over x, one line per ``colour``, with a mark at each point
    - points: y over x, a labelled mark each; ``colour`` is the label
    - spans: from ``x`` to ``until`` along time, one row per y, the part named by ``colour``
    """

    title: str
    kind: Kind
    rows: Sequence[dict[str, str | int | float | None]]
    x: Axis
    y: Axis
    colour: str = ""
    """The field whose values get a colour each. Ledger parts, strategies, published and ours have theirs."""

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


@dataclass(frozen=True)
class Document:
    """One page."""

    title: str
    summary: Sequence[str]
    """The findings in plain sentences, most important first."""

    sections: Sequence[Section]
    command: str = ""
    """What makes it again."""

    environment: Table | None = None
    left_out: Sequence[str] = field(default_factory=tuple)
    """What was found but is not in here, and why."""

    @property
    def exhibits(self) -> list[Exhibit]:
        return [exhibit for section in self.sections for exhibit in section.exhibits]


def slug(title: str) -> str:
    """A name for a file."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
