"""Charts as specs, and what Vega makes of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
import vl_convert

from gradsync.draw.colours import FIXED, IN_ORDER, PARTS, STRATEGIES, colours
from gradsync.draw.vega import labels
from gradsync.draw.vega.charts import legend, panels, spec
from gradsync.exhibit.form import IDEAL, OURS, PUBLISHED, Axis, Chart
from made_up_document import BAR_PANELS, BARS, CHARTS, LINES, LYING, PANELS, POINTS, SPANS, STACK


def marks(chart: Chart) -> Counter[str]:
    """How many of each kind are in the picture, without axes and legends."""
    tree = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec(chart)))
    found: Counter[str] = Counter()
    for group in tree.iter("{http://www.w3.org/2000/svg}g"):
        names = group.get("class", "").split()
        if "role-mark" in names:
            found[names[0].removeprefix("mark-")] += len(group)
    return found


def encodings(value: Any) -> Iterator[dict[str, Any]]:
    """Of every layer and every panel."""
    if isinstance(value, dict):
        if "encoding" in value:
            yield value["encoding"]
        for item in value.values():
            yield from encodings(item)
    elif isinstance(value, list):
        for item in value:
            yield from encodings(item)


def scales(chart: Chart, channel: str) -> set[str]:
    return {e[channel].get("scale", {}).get("type", "linear") for e in encodings(spec(chart)) if channel in e}


@pytest.mark.parametrize(
    ("chart", "expected"),
    [
        (STACK, {"rect": 7 * 8}),
        (LINES, {"symbol": 4, "rule": 4, "line": 3}),
        (PANELS, {"symbol": 18, "line": 6}),
        (BARS, {"rect": 6, "text": 6}),
        (BAR_PANELS, {"rect": 8, "text": 8}),
        (LYING, {"rect": 5 + 2 * 5, "rule": 5, "text": 5}),  # an error bar has two caps
        (POINTS, {"symbol": 7, "text": 7}),
        (SPANS, {"rect": 6}),
    ],
    ids=lambda value: value.kind if isinstance(value, Chart) else "",
)
def test_every_row_that_has_a_value_becomes_a_mark(chart: Chart, expected: dict[str, int]):
    found = marks(chart)
    assert {kind: found[kind] for kind in expected} == expected


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.title)
def test_every_chart_says_what_it_shows(chart: Chart):
    whole = spec(chart)
    assert " ".join(whole["title"]["text"]) == chart.title
    text = json.dumps(whole, ensure_ascii=False)
    assert chart.x.heading in text
    assert chart.y.heading in text
    assert whole["config"]["background"] == "white"
    fields = {field for row in chart.rows for field in row}
    shown = [{item["field"] for item in e["tooltip"]} for e in encodings(whole) if "tooltip" in e]
    assert shown and all(tooltip == fields for tooltip in shown)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.title)
def test_on_the_page_a_chart_is_as_wide_as_its_place_and_has_no_colours_of_its_own_for_text(chart: Chart):
    found = panels(chart)
    assert len(found) == len({row[chart.panel] for row in chart.rows} if chart.panel else [chart])
    for one in found:
        assert one["width"] == "container"
        assert one["description"].startswith(chart.title)
        assert "config" not in one


def test_panels_have_axes_of_their_own_and_one_legend():
    whole = spec(PANELS)
    assert [view["title"] for view in whole["concat"]] == ["1", "2", "4"]
    assert whole["columns"] == 2
    assert whole["resolve"]["scale"]["color"] == "shared"
    assert "y" not in whole["resolve"]["scale"]


def test_parts_are_stacked_in_the_order_of_the_ledger():
    found = next(encodings(spec(STACK)))
    assert found["color"]["scale"] == {"domain": list(PARTS), "range": list(PARTS.values())}
    assert found["order"]["field"] == "_place"


def test_what_is_expected_is_dashed_and_without_marks():
    entries = {entry.name: entry for entry in legend(LINES)}
    assert [name for name, entry in entries.items() if entry.shape == "stroke"] == [IDEAL, "Amdahl (ring)"]
    assert entries["Amdahl (ring)"].colour == entries["ring"].colour
    line = next(e for e in encodings(spec(LINES)) if "strokeDash" in e)
    assert line["strokeDash"]["scale"]["range"] == [[1, 0], [5, 4], [5, 4]]


def test_what_others_published_is_dotted():
    rows = [{"x": n, "y": n, "series": f"ring, {whose}"} for n in (1, 2) for whose in (PUBLISHED, OURS)]
    found = next(encodings(spec(Chart("", "lines", rows, Axis("x", "x"), Axis("y", "y"), "series"))))
    assert found["strokeDash"]["scale"]["range"] == [[2, 3], [1, 0]]


def test_ticks_are_where_something_was_measured_if_the_places_were_chosen():
    def ticks(*values: float) -> list[float] | None:
        chart = Chart("", "lines", [{"x": x, "y": 1} for x in values], Axis("x", "x"), Axis("y", "y"))
        return next(encodings(spec(chart)))["x"]["axis"].get("values")

    assert ticks(1, 2, 65_536) == [1, 2, 65_536]
    assert ticks(0.05, 0.1) == [0.05, 0.1]
    assert ticks(1.00234, 2.1) is None


def test_places_that_were_chosen_are_written_as_they_are():
    chart = Chart("", "lines", [{"x": x, "y": 50 * x} for x in (1, 2)], Axis("x", "x"), Axis("y", "y"))
    svg = vl_convert.vegalite_to_svg(spec(chart))
    assert ">1<" in svg
    assert ">2<" in svg
    assert not re.search(r">[12]\.0<", svg)


def test_lines_that_lie_on_each_other_are_drawn_once_with_all_their_names():
    curves = {"ring": 1.0, "ddp": 1.0 + 1e-9, "ps-async": 2.0, IDEAL: 1.0, PUBLISHED: 1.0}
    rows = [{"step": n, "loss": pace / n, "run": run} for run, pace in curves.items() for n in (1, 2, 3)]
    chart = Chart("", "lines", rows, Axis("step", "step"), Axis("loss", "loss"), "run")
    assert [entry.name for entry in legend(chart)] == ["ring = ddp", "ps-async", IDEAL, PUBLISHED]
    assert legend(chart)[0].colour == STRATEGIES["ring"]
    assert marks(chart)["line"] == 4
    in_panels = replace(chart, rows=[{**row, "model": row["run"]} for row in rows], panel="model")
    assert len(legend(in_panels)) == len(curves), "lines of different panels are not the same"


def test_names_are_text_in_a_picture():
    name = "<script>alert(1)</script> & co"
    for chart in CHARTS:
        fields = {chart.x.field} if chart.kind in ("bars", "stack") else {chart.colour} - {""}
        odd = replace(chart, title=name, rows=[{**row, **dict.fromkeys(fields, name)} for row in chart.rows])
        svg = vl_convert.vegalite_to_svg(spec(odd))
        assert "<script" not in svg
        ElementTree.fromstring(svg)


def test_a_line_is_broken_where_a_value_is_missing():
    rows = [{"x": n, "y": None if n == 3 else n} for n in range(1, 6)]
    svg = vl_convert.vegalite_to_svg(spec(Chart("", "lines", rows, Axis("x", "x"), Axis("y", "y"))))
    assert re.findall(r'<path [^>]*aria-roledescription="line mark" [^>]*d="([^"]*)"', svg)[0].count("M") == 2


@pytest.mark.parametrize(("values", "expected"), [((1, 10, 1000), "log"), ((0, 10, 1000), "linear")])
def test_an_axis_is_logarithmic_only_above_0(values: tuple[int, ...], expected: str):
    rows = [{"x": value, "y": value} for value in values]
    chart = Chart("", "lines", rows, Axis("x", "x", log=True), Axis("y", "y", log=True))
    assert scales(chart, "x") == {expected}
    assert scales(chart, "y") == {expected}
    assert marks(chart)["symbol"] == 3


def test_bars_begin_at_0_also_where_the_axis_need_not():
    chart = replace(BARS, y=replace(BARS.y, zero=False))
    lengths = [e["y"]["scale"] for e in encodings(spec(chart)) if "scale" in e.get("y", {})]
    assert lengths and all(scale["zero"] for scale in lengths)


def test_names_that_are_long_lie_beside_their_bars_in_several_lines():
    found = next(encodings(spec(LYING)))
    assert found["y"]["field"] == "setting"
    assert '"learning rate 0.1,"' in found["y"]["axis"]["labelExpr"]
    assert next(encodings(spec(BARS)))["x"]["field"] == "workers"


def test_big_numbers_are_short():
    svg = vl_convert.vegalite_to_svg(spec(LYING))
    assert ">617k<" in svg
    assert ">600k<" in svg


def test_a_line_over_names_has_them_in_their_order():
    rows = [{"model": name, "s": 1.0} for name in ("vgg11", "alexnet", "resnet18")]
    chart = Chart("", "lines", rows, Axis("model", "model"), Axis("s", "step", "s"))
    assert next(encodings(spec(chart)))["x"]["sort"] == ["vgg11", "alexnet", "resnet18"]
    assert marks(chart)["symbol"] == 3


def test_a_chart_without_rows_or_colours_can_be_drawn():
    for chart in CHARTS:
        assert vl_convert.vegalite_to_svg(spec(replace(chart, rows=[]))).startswith("<svg")
    plain = Chart("", "points", [{"x": 1, "y": 2}], Axis("x", "x"), Axis("y", "y"))
    assert marks(plain)["symbol"] == 1


def test_every_strategy_and_part_has_its_colour_and_no_two_share_one():
    assert len(set(STRATEGIES.values())) == len(STRATEGIES)
    assert all(FIXED[part] == colour for part, colour in PARTS.items())
    assert colours(["ring", "mine"])[0] == colours(["yours", "mine", "ring"])[2] == STRATEGIES["ring"]


def test_other_names_get_the_colours_that_are_left_and_a_strategys_variants_begin_with_its_own():
    found = colours(["ring", "mine", "yours"])
    assert len(set(found)) == 3
    assert set(found[1:]) <= set(IN_ORDER)
    assert colours(["ddp × 4"]) == [STRATEGIES["ddp"]]
    assert len(set(colours(["ddp, 1 node", "ddp, 2 nodes"]))) == 2


def test_names_beside_points_never_hide_each_other():
    points = [(0.5, 0.5), (0.52, 0.5), (0.5, 0.55), (0.99, 0.9), (0.5, 0.5)]
    names = ["all-reduce", "ring", "ddp", "at the right edge", "gather-scatter"]
    found = list(labels.places(names, points, 300))
    boxes = [
        labels.box(name, x * 300, (1 - y) * labels.HEIGHT, place)
        for name, (x, y), place in zip(names, points, found, strict=True)
        if place
    ]
    assert found[3] == labels.LEFT
    assert len(boxes) >= 3
    assert not any(a.meets(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_name_without_room_is_in_the_legend_instead():
    assert legend(POINTS) == []
    crowd = replace(POINTS, rows=[{**row, "accuracy": 70, "s": 1 + n / 100} for n, row in enumerate(POINTS.rows)])
    assert len(legend(crowd)) == len(POINTS.rows)


def test_the_command_line_starts_without_what_draws():
    loaded = "{'altair', 'vl_convert', 'jinja2'} & set(sys.modules)"
    code = f"import sys, gradsync.cli.main, gradsync.draw.export; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr
