"""The rows of a chart that can be drawn, the names in them, and which of its series are the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gradsync.draw.colours import PARTS, is_expected
from gradsync.exhibit.coinciding import Point, coinciding
from gradsync.exhibit.form import PUBLISHED, Chart
from gradsync.figures.value import NOTHING
from gradsync.record import finite

Row = dict[str, Any]

EQUALS = " = "


def drawable(chart: Chart) -> list[Row]:
    """The rows that can be drawn, with names as text. A line is interrupted where its value is missing.

    Lines that coincide become one, which has the names of all: "ring = ddp".
    """
    needed = {chart.x.field} | ({chart.until} if chart.until else set())
    needed |= {chart.y.field} if chart.kind != "lines" else set()
    as_text = {chart.colour, chart.panel} - {""}
    as_text |= {chart.x.field} if chart.kind in ("bars", "stack") else set()
    as_text |= {chart.y.field} if chart.kind == "spans" else set()
    rows = [
        {**row, **{field: label_of(row.get(field)) for field in as_text}}
        for row in finite(list(chart.rows))
        if all(row.get(field) is not None for field in needed)
    ]
    return joined(chart, rows) if chart.kind == "lines" and chart.colour else rows


def joined(chart: Chart, rows: Sequence[Row]) -> list[Row]:
    """Each distinct line once. Laws and published results keep lines of their own."""
    fields = [field for field in (chart.panel, chart.x.field, chart.y.field, chart.deviation) if field]
    lines: dict[str, list[Point]] = {}
    for row in rows:
        lines.setdefault(row[chart.colour], []).append([row.get(field) for field in fields])
    alone = [name for name in lines if is_expected(name) or name.split(", ")[-1] == PUBLISHED]
    measured = {name: points for name, points in lines.items() if name not in alone}
    drawn = {names[0]: EQUALS.join(names) for names in [*([name] for name in alone), *coinciding(measured)]}
    return [{**row, chart.colour: drawn[row[chart.colour]]} for row in rows if row[chart.colour] in drawn]


def series_of(chart: Chart, rows: Sequence[Row]) -> list[str]:
    """In the order of the rows; the parts of a ledger in theirs."""
    series = labels_of(rows, chart.colour) if chart.colour else []
    return [part for part in PARTS if part in series] if set(series) <= set(PARTS) else series


def by_panel(chart: Chart, rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The rows of each panel with its name; all of them together where there is only one."""
    found = labels_of(rows, chart.panel) if chart.panel else []
    if len(found) < 2:
        return [("".join(found), list(rows))]
    return [(name, [row for row in rows if row[chart.panel] == name]) for name in found]


def numbers(rows: Iterable[Row], field: str) -> list[float]:
    return [value for row in rows if isinstance(value := row.get(field), (int, float))]


def labels_of(rows: Iterable[Row], field: str) -> list[str]:
    """Every value once, in the order of the rows."""
    return list(dict.fromkeys(label_of(row.get(field)) for row in rows))


def label_of(value: str | int | float | None) -> str:
    """A value that stands for itself, such as a batch size, as text."""
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:g}"
