"""The marks of each kind of chart, with their colours and tooltips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from gradsync.draw.colours import BLUE, colours, is_expected
from gradsync.draw.series import Row, numbers
from gradsync.draw.vega import labels
from gradsync.draw.vega.axes import along, category, is_log, is_numeric, measure, tooltip
from gradsync.draw.vega.panel import Panel
from gradsync.exhibit.form import PUBLISHED, Chart, Column
from gradsync.text import abbreviated

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHED = "stroke"
FEW = 12  # no more bars than these have their number written beside them
MANY = 25  # points of one line: if there are more, their marks are small
PHONE = 420  # pixels: on a narrower plot the names of points are placed differently
OWN = "_"  # prefix of the fields that are added here to those of the chart

View = alt.Chart | alt.LayerChart | alt.FacetChart
Encoding = dict[str, Any]


def view(panel: Panel) -> View:
    return KINDS[panel.chart.kind](panel, {"tooltip": tooltip(panel.chart, panel.rows), "color": colour(panel)})


def colour(panel: Panel) -> Any:
    return alt.Color(**by_series(panel, colours(panel.series))) if panel.series else alt.value(BLUE)


def by_series(panel: Panel, values: Sequence[Any]) -> Encoding:
    """One value for each series. All legends of a chart merge into one, as they have the same field."""
    scale = alt.Scale(domain=panel.series, range=values)
    hidden = {"legend": None} if is_named(panel) else {}
    return {"field": panel.chart.colour, "type": "nominal", "scale": scale, **hidden}


def is_named(panel: Panel) -> bool:
    """Whether each mark has its name beside it, also on a narrow plot: a legend would only repeat it."""
    chart = panel.chart
    if chart.kind == "points":
        return all(row.get(f"{OWN}narrow_shown") for row in with_places(panel))
    return not panel.series or chart.colour in (chart.x.field, chart.y.field)


def drawn(rows: Sequence[Row]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(rows)))


def bars(panel: Panel, encoding: Encoding) -> View:
    """A bar begins at 0, whatever the axis asks for: its length is its value."""
    chart = panel.chart
    rows = [row | ends(chart, row) | {f"{OWN}written": short(row[chart.y.field])} for row in panel.rows]
    few = len(rows) <= FEW
    room = (1.12 if panel.upright else 1.35) * max([0.0, *numbers(rows, f"{OWN}high")])
    position = lying_or_standing(panel, rows, **({"domainMax": room} if few and room else {}))
    name, value = ("x", "y") if panel.upright else ("y", "x")
    if panel.grouped:
        offset = alt.XOffset if panel.upright else alt.YOffset
        position[f"{name}Offset"] = offset(field=chart.colour, type="nominal", sort=panel.series)
    layers = [drawn(rows).mark_bar().encode(**position, **encoding)]
    if chart.deviation:
        layers += error_bars(drawn(with_deviation(chart, rows)), position, value)
    if few:
        layers.append(written(rows, position, value))
    return alt.layer(*layers)


def written(rows: Sequence[Row], position: Encoding, value: str) -> alt.Chart:
    """The numbers, each at the end of its bar; numbers above standing bars only where there is room for all."""
    beside: Encoding = {"dx": 5, "align": "left", "baseline": "middle"}
    end: Any = alt.X(field=f"{OWN}high", type="quantitative")
    if value == "y":
        letters = sum(len(row[f"{OWN}written"]) for row in rows)
        beside = {"dy": -8, "align": "center", "opacity": alt.ExprRef(f"width < {7 * letters} ? 0 : 1")}
        end = alt.Y(field=f"{OWN}high", type="quantitative")
    text = alt.Text(field=f"{OWN}written", type="nominal")
    return drawn(rows).mark_text(**beside).encode(**{**position, value: end, "text": text})


def short(value: float) -> str:
    """A number beside its bar."""
    return Column("").text(value) if abs(value) < 1e5 else abbreviated(value)


def lying_or_standing(panel: Panel, rows: Sequence[Row], **scale: Any) -> Encoding:
    chart = panel.chart
    if is_log(chart.y, rows):
        scale = {}
    else:
        scale["zero"] = True
    length = measure(chart.y, rows, **scale)
    if panel.upright:
        slim: Encoding = {} if panel.grouped else {"scale": alt.Scale(padding=0.4)}
        return {"x": alt.X(**category(chart.x, rows), **slim), "y": alt.Y(**length)}
    return {"y": alt.Y(**category(chart.x, rows, beside=True)), "x": alt.X(**length)}


def ends(chart: Chart, row: Row) -> Row:
    """The ends of the error bar; without a deviation, both are the value."""
    value, deviation = row.get(chart.y.field), row.get(chart.deviation) or 0.0
    if value is None:
        return {}
    low = value - deviation
    return {f"{OWN}low": value if chart.y.log and low <= 0 else low, f"{OWN}high": value + deviation}


def with_deviation(chart: Chart, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get(chart.deviation)]


def error_bars(base: alt.Chart, position: Encoding, value: str = "y") -> list[alt.Chart]:
    """A stroke over the deviation, and a cap at each of its ends."""
    end, far_end = {"y": (alt.Y, alt.Y2), "x": (alt.X, alt.X2)}[value]
    low, high = (end(field=f"{OWN}{name}", type="quantitative") for name in ("low", "high"))
    stroke = base.mark_rule(strokeWidth=1.5).encode(
        **{**position, value: low, f"{value}2": far_end(field=f"{OWN}high")}
    )
    cap: Encoding = {"thickness": 1.5, "size": 9, "orient": "horizontal" if value == "y" else "vertical"}
    return [stroke, *(base.mark_tick(**cap).encode(**{**position, value: one}) for one in (low, high))]


def stack(panel: Panel, encoding: Encoding) -> View:
    rows = [row | {f"{OWN}place": panel.series.index(row[panel.chart.colour])} for row in panel.rows]
    order = alt.Order(field=f"{OWN}place", type="quantitative")
    return drawn(rows).mark_bar().encode(**lying_or_standing(panel, rows), **encoding, order=order)


def lines(panel: Panel, encoding: Encoding) -> View:
    """Expected series are dashed and have no marks; measured ones can be told apart without colour, too."""
    chart, tooltips = panel.chart, encoding.pop("tooltip")
    rows = [row | ends(chart, row) for row in panel.rows]
    seen = [row for row in rows if not (chart.colour and is_expected(row[chart.colour]))]
    position: Encoding = {"x": alt.X(**along(chart.x, rows, seen)), "y": alt.Y(**measure(chart.y, rows))}
    dash: Encoding = {}
    shape: Encoding = {}
    if panel.series:
        dash["strokeDash"] = alt.StrokeDash(**by_series(panel, [dashes(name) for name in panel.series]))
        shape["shape"] = alt.Shape(**by_series(panel, shapes_of(panel.series)))
    layers = [drawn(rows).mark_line(strokeWidth=2).encode(**position, **encoding, **dash)]
    if chart.deviation:
        layers += [bar.encode(**encoding) for bar in error_bars(drawn(with_deviation(chart, seen)), position)]
    size = 60 if len(seen) <= MANY * max(1, len(panel.series)) else 12
    points = drawn(seen).mark_point(filled=True, size=size, opacity=1)
    return alt.layer(*layers, points.encode(**position, **encoding, **shape, tooltip=tooltips))


def dashes(name: str) -> list[int]:
    """Pixels with and without ink: expected series are dashed, published ones dotted."""
    return [5, 4] if is_expected(name) else [2, 3] if name.split(", ")[-1] == PUBLISHED else [1, 0]


def shapes_of(series: Sequence[str]) -> list[str]:
    return [DASHED if is_expected(name) else SHAPES[place % len(SHAPES)] for place, name in enumerate(series)]


def points(panel: Panel, encoding: Encoding) -> View:
    """Each with its name beside it, where there is room."""
    chart = panel.chart
    rows = [row | ends(chart, row) for row in with_places(panel)]
    room: Encoding = {} if chart.y.zero else {"padding": 16}
    position: Encoding = {"x": alt.X(**along(chart.x, rows)), "y": alt.Y(**measure(chart.y, rows, **room))}
    layers = [drawn(rows).mark_point(filled=True, size=80, opacity=1).encode(**position, **encoding)]
    if chart.deviation:
        layers = [*error_bars(drawn(with_deviation(chart, rows)), position), *layers]
    if chart.colour:
        beside: Encoding = {
            key: alt.ExprRef(f"width < {PHONE} ? datum.{OWN}narrow_{field} : datum.{OWN}wide_{field}")
            for key, field in (("dx", "dx"), ("dy", "dy"), ("align", "align"), ("opacity", "shown"))
        }
        text = alt.Text(field=chart.colour, type="nominal")
        layers.append(drawn(rows).mark_text(baseline="middle", **beside).encode(**position, text=text))
    return alt.layer(*layers)


def with_places(panel: Panel) -> list[Row]:
    """The rows, and where each name goes on a narrow and on a wide plot."""
    chart, rows = panel.chart, [dict(row) for row in panel.rows]
    if not (chart.colour and rows and is_numeric(chart.x.field, rows)):
        return rows
    across, up = (
        labels.shares(numbers(rows, axis.field), log=is_log(axis, rows), zero=axis.zero)
        for axis in (chart.x, chart.y)
    )
    for size, width in (("narrow", 250), ("wide", 600)):
        found = labels.places([row[chart.colour] for row in rows], list(zip(across, up, strict=True)), width)
        for row, place in zip(rows, found, strict=True):
            row |= {f"{OWN}{size}_shown": int(place is not None)}
            row |= {f"{OWN}{size}_{key}": value for key, value in (place or labels.RIGHT)._asdict().items()}
    return rows


def spans(panel: Panel, encoding: Encoding) -> View:
    chart = panel.chart
    position: Encoding = {
        "x": alt.X(**measure(chart.x, panel.rows)),
        "x2": alt.X2(field=chart.until),
        "y": alt.Y(**category(chart.y, panel.rows, beside=True)),
    }
    return drawn(panel.rows).mark_bar().encode(**position, **encoding)


KINDS: dict[str, Callable[[Panel, Encoding], View]] = {
    "bars": bars,
    "stack": stack,
    "lines": lines,
    "points": points,
    "spans": spans,
}
