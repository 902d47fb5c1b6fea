"""The plots a chart consists of: which rows each has, in which order and how large it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradsync.exhibit import Chart
from gradsync.record import finite
from gradsync.report.axes import Row, in_lines, name_of, names
from gradsync.report.colours import PARTS

HEIGHT = 260  # pixels, of a plot that does not grow with its names


@dataclass(frozen=True)
class Panel:
    """One plot. ``series`` are those of the whole chart, so that all its panels agree on the colours."""

    chart: Chart
    name: str
    rows: list[Row]
    series: list[str]

    @property
    def grouped(self) -> bool:
        """Whether bars of the same x lie beside each other."""
        return self.chart.kind == "bars" and len(self.series) > 1 and self.chart.colour != self.chart.x.field

    @property
    def upright(self) -> bool:
        """Whether bars stand: long or many names are easier to read beside bars that lie, and two would be towers."""
        found = names(self.rows, self.chart.x.field)
        bars = len(found) * (len(self.series) if self.grouped else 1)
        return 3 <= bars <= 24 and len(found) * max(map(len, found)) <= 45

    @property
    def height(self) -> int:
        if self.chart.kind == "spans":
            return 26 * max(1, len(names(self.rows, self.chart.y.field)))
        if self.chart.kind in ("bars", "stack") and not self.upright:
            found = names(self.rows, self.chart.x.field)
            bars = len(self.series) if self.grouped else 1
            return len(found) * max(28, 13 * bars + 10, *(15 * len(in_lines(name)) for name in found))
        return HEIGHT


def split(chart: Chart) -> list[Panel]:
    rows = drawable(chart)
    series = series_of(chart, rows)
    found = names(rows, chart.panel) if chart.panel else []
    if len(found) < 2:
        return [Panel(chart, "".join(found), rows, series)]
    return [Panel(chart, name, [row for row in rows if row[chart.panel] == name], series) for name in found]


def drawable(chart: Chart) -> list[Row]:
    """The rows that have a place; what names something is text. A line is broken where its value is missing."""
    needed = {chart.x.field} | ({chart.until} if chart.until else set())
    needed |= {chart.y.field} if chart.kind != "lines" else set()
    as_text = {chart.colour, chart.panel} - {""}
    as_text |= {chart.x.field} if chart.kind in ("bars", "stack") else set()
    as_text |= {chart.y.field} if chart.kind == "spans" else set()
    return [
        {**row, **{field: name_of(row.get(field)) for field in as_text}}
        for row in finite(list(chart.rows))
        if all(row.get(field) is not None for field in needed)
    ]


def series_of(chart: Chart, rows: Sequence[Row]) -> list[str]:
    """In the order of the rows; the parts of a ledger in theirs."""
    series = names(rows, chart.colour) if chart.colour else []
    return [part for part in PARTS if part in series] if set(series) <= set(PARTS) else series
