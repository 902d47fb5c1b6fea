"""A chart as a Vega-Lite spec: one for a file, or one per panel for the page."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import altair as alt

from gradsync.draw.colours import colours
from gradsync.draw.vega.marks import is_named, shapes_of, view
from gradsync.draw.vega.panel import split
from gradsync.draw.vega.theme import ON_PAPER, theme
from gradsync.exhibit.form import Chart

WIDTH, PANEL_WIDTH = 620, 340  # pixels, of the plot without its axes, in a file


def spec(chart: Chart) -> dict[str, Any]:
    """One picture for a file: on white, with its title and its legend, panels two in a row."""
    found = split(chart)
    width = PANEL_WIDTH if len(found) > 1 else WIDTH
    title = alt.TitleParams(textwrap.wrap(chart.title, WIDTH // 8) or [""])
    views = [view(panel).properties(width=width, height=panel.height) for panel in found]
    whole: Any = views[0]
    params: list[Any] = []
    if len(found) > 1:
        titled = [one.properties(title=panel.name) for one, panel in zip(views, found, strict=True)]
        whole = alt.concat(*titled, columns=2).resolve_scale(color="shared", shape="shared", strokeDash="shared")
        params = [{"name": "width", "value": width}]  # marks refer to it; a single plot has its own
    plain = whole.properties(title=title, description=chart.title).to_dict()
    return {**plain, "params": params, "config": theme(ON_PAPER, "white", legend_columns(chart))}


def panels(chart: Chart) -> list[dict[str, Any]]:
    """For the page, which adds the title, the legend and the theme: each is as wide as its container."""
    found = []
    for panel in split(chart):
        description = f"{chart.title}: {panel.name}" if panel.name else chart.title
        one = view(panel).properties(width="container", height=panel.height, description=description)
        plain = (one.properties(title=panel.name) if panel.name else one).to_dict()
        found.append({key: value for key, value in plain.items() if key != "config"})
    return found


class Entry(NamedTuple):
    """An entry of a legend. Its shape is one of marks.SHAPES, or marks.DASHED."""

    name: str
    colour: str
    shape: str


def legend(chart: Chart) -> list[Entry]:
    """Empty where the marks are labelled with their names already."""
    found = split(chart)
    if all(is_named(panel) for panel in found):
        return []
    series = found[0].series
    shapes = (
        shapes_of(series)
        if chart.kind == "lines"
        else ["circle" if chart.kind == "points" else "square"] * len(series)
    )
    return [Entry(*entry) for entry in zip(series, colours(series), shapes, strict=True)]


def legend_columns(chart: Chart) -> int:
    """How many entries fit side by side below a picture in a file."""
    longest = max((len(entry.name) for entry in legend(chart)), default=0)
    return max(1, int(WIDTH // (42 + 6.6 * longest)))
