"""How the fields of a chart's rows become axes, labels and tooltips."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from gradsync.draw.series import Row, labels_of, numbers
from gradsync.exhibit.form import Axis, Chart

LINE = 20  # letters of a label before it is broken
MOST_TICKS = 9  # more positions than these do not get a tick each
LINEAR = {"tickCount": 6}
BIG = "datum.label && abs(datum.value) >= 1e5 ? format(datum.value, '.3~s') : datum.label"


def is_log(axis: Axis, rows: Sequence[Row]) -> bool:
    """Whether the axis is logarithmic, for which all numbers must be above 0."""
    found = numbers(rows, axis.field)
    return axis.log and bool(found) and min(found) > 0


def measure(axis: Axis, rows: Sequence[Row], **scale: Any) -> dict[str, Any]:
    """An axis of numbers."""
    log = is_log(axis, rows)
    kind: dict[str, Any] = {"type": "log"} if log else {"zero": axis.zero}
    return {
        "field": axis.field,
        "type": "quantitative",
        "title": axis.heading,
        "scale": alt.Scale(**{**kind, **scale}),
        "axis": alt.Axis(
            labelExpr=BIG,
            labelOverlap=True,
            labelFlush=False,
            **(log_ticks(numbers(rows, axis.field)) if log else LINEAR),
        ),
    }


def log_ticks(values: Sequence[float]) -> dict[str, Any]:
    """Powers of ten, and 2 and 5 times those where the axis spans few: Vega would draw a line for every digit."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1,) if high - low > 2 else (1, 2, 5)
    return {"values": [step * 10.0**power for power in range(low, high + 1) for step in steps]}


def along(axis: Axis, rows: Sequence[Row], marked: Sequence[Row] = ()) -> dict[str, Any]:
    """The axis below lines and points: of numbers, with a tick at each of ``marked`` if few, or of names."""
    if not is_numeric(axis.field, rows):
        return category(axis, rows)
    places = sorted(set(numbers(marked, axis.field)))
    room: dict[str, Any] = {} if axis.zero and not is_log(axis, rows) else {"nice": False, "padding": 12}
    found = measure(axis, rows, **room)
    if 1 < len(places) <= MOST_TICKS and all(map(is_round, places)):
        if not is_log(axis, rows):
            found["scale"] = alt.Scale(zero=False, nice=False, padding=20)
        found["axis"] = alt.Axis(
            labelExpr=BIG, format=",.6~g", values=places, labelOverlap="greedy", labelFlush=False
        )
    return found


def is_round(value: float) -> bool:
    """Whether it was chosen, such as 128 or 0.05, rather than measured."""
    return isinstance(value, int) or float(f"{value:.3g}") == value


def is_numeric(field: str, rows: Sequence[Row]) -> bool:
    return all(isinstance(row.get(field), (int, float)) for row in rows)


def category(axis: Axis, rows: Sequence[Row], *, beside: bool = False) -> dict[str, Any]:
    """An axis of names in the order of the rows, long ones in several lines. ``beside``: to the left, not below."""
    found = labels_of(rows, axis.field)
    broken = json.dumps({name: in_lines(name) for name in found if len(name) > LINE})
    middle = alt.ExprRef(f"-6.5 * (length(({broken})[datum.value] || [0]) - 1)")
    return {
        "field": axis.field,
        "type": "nominal",
        "title": axis.heading,
        "sort": found,
        "axis": alt.Axis(
            labelExpr=f"({broken})[datum.value] || datum.label",
            labelOffset=middle if beside else 0,
            labelAngle=0,
            labelLimit=220,
            grid=False,
            ticks=False,
        ),
    }


def in_lines(name: str) -> list[str]:
    return textwrap.wrap(name, LINE) or [name]


def tooltip(chart: Chart, rows: Sequence[Row]) -> list[alt.Tooltip]:
    """Every field that has a value somewhere, in the order of the rows."""
    headings = {chart.x.field: chart.x.heading, chart.y.field: chart.y.heading}
    if chart.until:
        begin, end = replace(chart.x, title="from"), replace(chart.x, title="to")
        headings |= {chart.x.field: begin.heading, chart.until: end.heading}
    fields = dict.fromkeys(field for row in chart.rows for field, value in row.items() if value is not None)
    return [alt.Tooltip(title=headings.get(field, field), **shown(field, rows)) for field in fields]


def shown(field: str, rows: Sequence[Row]) -> dict[str, Any]:
    found = [row[field] for row in rows if row.get(field) is not None]
    if not all(isinstance(value, (int, float)) for value in found):
        return {"field": field, "type": "nominal"}
    whole = all(isinstance(value, int) or math.floor(value) == value for value in found)
    return {"field": field, "type": "quantitative", "format": ",d" if whole else ",.4~r"}
