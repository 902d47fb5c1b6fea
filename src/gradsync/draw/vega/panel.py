"""The plots a chart consists of: which rows each has, in which order and how large it is."""

from __future__ import annotations

from dataclasses import dataclass

from gradsync.draw.series import Row, by_panel, drawable, labels_of, series_of
from gradsync.draw.vega.axes import in_lines
from gradsync.exhibit.form import Chart

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
        """Whether bars of the same x stand side by side."""
        return self.chart.kind == "bars" and len(self.series) > 1 and self.chart.colour != self.chart.x.field

    @property
    def upright(self) -> bool:
        """Whether bars are vertical: long or many names read better beside horizontal ones, and 2 would be towers."""
        found = labels_of(self.rows, self.chart.x.field)
        bars = len(found) * (len(self.series) if self.grouped else 1)
        return 3 <= bars <= 24 and len(found) * max(map(len, found)) <= 45

    @property
    def height(self) -> int:
        if self.chart.kind == "spans":
            return 26 * max(1, len(labels_of(self.rows, self.chart.y.field)))
        if self.chart.kind in ("bars", "stack") and not self.upright:
            found = labels_of(self.rows, self.chart.x.field)
            bars = len(self.series) if self.grouped else 1
            return len(found) * max(28, 13 * bars + 10, *(15 * len(in_lines(name)) for name in found))
        return HEIGHT


def split(chart: Chart) -> list[Panel]:
    rows = drawable(chart)
    series = series_of(chart, rows)
    return [Panel(chart, name, found, series) for name, found in by_panel(chart, rows)]
