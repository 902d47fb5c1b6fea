"""Exhibits on terminals of many widths: nothing that is read as one is ever split."""

from __future__ import annotations

import io
import re
import string
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from gradsync.draw.cells import cells, cells_as_text
from gradsync.draw.colours import PARTS as COLOURS
from gradsync.draw.terminal import draw
from gradsync.draw.terminal.charts import LONGEST_BAR, in_cells, letters_of
from gradsync.draw.terminal.words import wrapped
from gradsync.exhibit.form import Axis, Chart, Column, Document, Exhibit, Section, Table
from gradsync.figures.value import PRECISE, Spread
from gradsync.record.summaries import PARTS
from made_up_document import DOCUMENT, LINES, STACK, TABLE

WIDTHS = (60, 80, 120, 200)

words = st.text(string.ascii_lowercase + "é_漢", min_size=1, max_size=12)
names = st.one_of(
    st.text(string.ascii_letters + string.digits + "-_/.:&<[]é漢", min_size=1, max_size=50),
    st.builds(lambda name, count: f"{name} × {count}", words, st.integers(1, 16)),
)
prose = st.lists(words, min_size=8, max_size=20).map(" ".join)
numbers = st.one_of(
    st.integers(-(10**9), 10**9),
    st.floats(-1e9, 1e9),
    st.builds(Spread, st.floats(-1e6, 1e6), st.floats(0, 1e3)),
)
headings = st.lists(words, min_size=1, max_size=4).map(" ".join)
units = st.sampled_from(["", "s", "ms", "samples/s", "% of the time"])
forms = st.sampled_from(["", PRECISE, ".1%", ",.3f"])


@st.composite
def tables(draw: st.DrawFn) -> Table:
    kinds = draw(st.lists(st.sampled_from([names, numbers, numbers, numbers, prose]), min_size=1, max_size=14))
    columns = [Column(draw(headings), draw(units), draw(forms) if kind is numbers else "") for kind in kinds]
    count = draw(st.integers(0, 5))
    cell = [kind if index == 0 else st.none() | kind for index, kind in enumerate(kinds)]
    rows = [[draw(kind) for kind in cell] for _ in range(count)]
    return Table(draw(headings), columns, rows, draw(st.lists(prose, max_size=2)))


def shown(what: Document | Section | Exhibit, width: int, encoding: str = "utf-8", details: bool = False) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    console = Console(file=file, width=width)
    draw(what, console, details=details)
    file.flush()
    return file.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]


def unsplit(text: str) -> re.Pattern[str]:
    """As a cell of its own: nothing but spaces or the ends of the line beside it."""
    return re.compile(rf"(?:^|(?<=\s)){re.escape(text)}(?=\s|$)", re.MULTILINE)


@pytest.mark.parametrize("width", WIDTHS)
@settings(max_examples=300, deadline=None)
@given(table=tables())
def test_no_number_and_no_name_is_ever_split(table: Table, width: int):
    text = shown(table, width)
    found = cells(table)
    for index in range(len(found.columns)):
        for cell in found.texts(index):
            parts = wrapped(cell, 1) if found.is_prose(index) else [cell]
            assert all(unsplit(part).search(text) for part in parts), cell
    for column in found.columns:
        assert all(part in text for part in wrapped(column.name, 1))
    longest_name = max((cell_len(cell) for row in found.rows for cell in row if not cell.count(" ") > 2), default=0)
    assert max(map(cell_len, text.splitlines())) <= max(width, longest_name)


@pytest.mark.parametrize("width", WIDTHS)
@settings(max_examples=100, deadline=None)
@given(table=tables())
def test_every_cell_is_shown_as_often_as_it_is_in_the_table(table: Table, width: int):
    """Dividing and turning a table loses no row."""
    text = shown(Table("", table.columns, table.rows), width)
    _, rows = cells_as_text(table)
    for value in {cell for row in rows for cell in row if " " not in cell}:
        assert len(unsplit(value).findall(text)) >= sum(row.count(value) for row in rows)


MANY = Table(
    "Many columns",
    [Column("strategy"), Column("workers"), *(Column(f"figure {n}", "ms") for n in range(9)), Column("remark")],
    [
        [name, workers, *(1000.0 * n + workers for n in range(9)), "Rank 1 is late in 38 of 40 steps, by 12 ± 3 ms."]
        for name in ("ring", "all-reduce")
        for workers in (2, 4)
    ],
)


def test_columns_that_do_not_fit_go_to_further_tables_that_name_their_rows_again():
    lines = shown(MANY, 80).splitlines()
    tops = [line for line in lines if line.startswith("strategy")]
    assert len(tops) > 1
    assert sum(line.split()[:2] == ["all-reduce", "4"] for line in lines) == len(tops)
    rules = [line for line in lines if line.startswith("─")]
    assert len(rules) == len(tops)


def test_one_table_where_there_is_room():
    lines = shown(MANY, 200).splitlines()
    assert sum(line.startswith("─") for line in lines) == 1
    assert sum("12 ± 3 ms." in line for line in lines) == 4


def test_prose_breaks_between_words_and_keeps_a_number_with_its_deviation():
    for width in range(60, 120):
        text = shown(MANY, width)
        assert text.count("12 ± 3") == 4, width


def test_a_table_whose_names_leave_no_room_is_turned():
    long = "a-folder-of-runs/with-a-name-that-is-longer-than-half-of-it"
    table = Table("Turned", [Column("run"), Column("samples", "1/s")], [[long, 1234.5], [f"{long[:-1]}x", 2.0]])
    assert shown(table, 60).splitlines()[1:] == [
        "Turned",
        "run",
        long if len(long) > 58 else f"  {long}",
        "samples (1/s)  1,234",
        "",
        "run",
        f"{long[:-1]}x",
        "samples (1/s)  2.00",
    ]


def test_a_name_longer_than_the_terminal_stays_whole():
    assert "x" * 100 in shown(Table("", [Column("name"), Column("n")], [["x" * 100, 1]]), 60).splitlines()


def test_numbers_are_right_text_is_left_and_an_empty_column_is_left_out():
    assert shown(TABLE, 80).splitlines()[1:] == [
        "Scaling, 100 % of it_all",
        "                                   step  speed-up",
        "strategy           workers            s         ×",
        "─────────────────────────────────────────────────",
        "all_reduce & <co>        1  0.51 ± 0.01         –",
        "a | b                1,234         0.25      1.80",
        "50 % of the time; 3 × faster ± 1.",
    ]


def test_headings_break_at_spaces_and_before_the_unit():
    table = Table(
        "", [Column("name"), *(Column("runnable, not scheduled", "%") for _ in range(4))], [["a", *[1] * 4]]
    )
    lines = shown(table, 66).splitlines()[1:4]
    assert [line.split() for line in lines] == [["runnable,", "not"] * 4, ["scheduled"] * 4, ["name", *["%"] * 4]]


def test_what_a_terminal_would_obey_is_not_passed_on():
    odd = Table("Odd\x1b[2J", [Column("name\x1b[31m")], [["a\x1b]0;title\x07b\nc"]])
    assert "\x1b" not in shown(odd, 80)
    assert "a ]0;title b c" in shown(odd, 80)
    assert "[red]x[/red] :smile:" in shown(Section("", [], ["[red]x[/red] :smile:"]), 80)


def test_sentences_are_broken_between_words_only():
    path = "studies/" + "x" * 90
    lines = shown(Section("", [], [f"The report is in {path} and nowhere else."]), 60).splitlines()
    assert lines[1:] == ["The report is in", path, "and nowhere else."]


def test_a_document_has_its_findings_first_and_no_heading_without_anything_below():
    lines = shown(DOCUMENT, 80).splitlines()
    assert lines[1:5] == [DOCUMENT.title, "", *DOCUMENT.summary]
    assert lines[-2:] == ["Left out", *DOCUMENT.left_out]
    assert "Trade-offs" not in lines
    assert all(first or second for first, second in pairwise(lines)), "no two empty lines"


def test_details_are_shown_when_they_are_asked_for():
    whole = Document("t", [], [Section("Result", [], ["Fast."]), Section("Bytes", [], ["Many."], detail=True)])
    assert "Many." not in shown(whole, 80)
    assert "Many." in shown(whole, 80, details=True)
    assert "Many." in shown(whole.sections[1], 80)


def test_a_chart_for_the_page_is_not_drawn():
    assert shown(LINES, 80) == ""


def stack(parts: dict[str, dict[str, float]]) -> Chart:
    rows = [{"run": run, "part": part, "ms": value} for run, each in parts.items() for part, value in each.items()]
    return Chart("Time of a step", "stack", rows, Axis("run", "run"), Axis("ms", "time", "ms"), "part")


def test_a_stack_is_bars_with_a_letter_for_each_part():
    local = {"forward": 300.0, "backward": 600.0}
    gathered = {"forward": 150.0, "backward": 300.0, "wait": 50.0, "wire": 100.0}
    lines = shown(stack({"local": local, "gather-scatter": gathered}), 80).splitlines()
    assert lines[1:] == [
        "Time of a step",
        "local          " + "f" * 20 + "b" * 40,
        "gather-scatter " + "f" * 10 + "b" * 20 + "-" * 3 + "~" * 7,
        "f forward  b backward  - wait  ~ wire",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_bar_is_never_longer_than_its_place_whatever_the_parts(width: int):
    odd = {"forward": 1e12, "backward": -1e12, "data": 1e-3}
    for name in ("odd", "x" * 50, "the name of a run that takes nearly all of it"):
        text = shown(stack({name: odd, "b": dict.fromkeys(PARTS, 1.0)}), width)
        assert max(map(len, text.splitlines())) <= width
        assert name in text


@pytest.mark.parametrize("lengths", [[0.4] * 8, [10.0, 0.5, 20.5, 29.0], [0.0], [59.6, 0.4]])
def test_rounding_does_not_lengthen_the_bar(lengths: list[float]):
    assert sum(in_cells(lengths)) == round(sum(lengths)) <= LONGEST_BAR


def test_every_part_of_the_ledger_has_a_colour_and_every_part_of_a_chart_a_letter_of_its_own():
    assert list(COLOURS) == list(PARTS)
    for series in (
        list(PARTS),
        ["compute", "communication", "other", "hidden communication"],
        ["aa", "ab", "a", "b"],
    ):
        assert len(set(letters_of(series))) == len(series)


def test_the_bars_of_several_panels_have_one_scale():
    rows = [{**row, "batch": batch, "ms": row["ms"] * batch} for row in STACK.rows for batch in (1, 2)]
    chart = Chart("t", "stack", rows, STACK.x, STACK.y, "part", "batch")
    bars = [line.split()[1] for line in shown(chart, 80).splitlines() if line.startswith("ring")]
    assert len(bars[1]) == pytest.approx(2 * len(bars[0]), abs=1)


STALENESS = Chart(
    "Staleness of the gradients",
    "bars",
    [{"staleness": value, "gradients": count} for value, count in ((0, 1200), (1, 600), (2, 1), (12, 0))],
    Axis("staleness", "staleness"),
    Axis("gradients", "gradients"),
)


def test_counts_of_whole_numbers_are_a_histogram():
    assert shown(STALENESS, 80).splitlines()[1:] == [
        "Staleness of the gradients",
        "staleness",
        f"        0 {'▇' * 60} 1,200",
        f"        1 {'▇' * 30} 600",
        "        2 ▇ 1",
        "       12 0",
    ]
    assert max(map(len, shown(STALENESS, 60).splitlines())) <= 60


def test_a_terminal_without_unicode_gets_other_signs():
    assert f"{'#' * 30} 600" in shown(STALENESS, 80, "ascii")
    table = Table("t", [Column("a"), Column("b")], [["x", 1]])
    assert shown(table, 80, "ascii").splitlines()[1:] == ["t", "a  b", "----", "x  1"]


def test_a_terminal_needs_nothing_of_what_draws_the_page():
    loaded = "{'altair', 'vl_convert', 'jinja2', 'torch'} & set(sys.modules)"
    code = f"import sys, gradsync.draw.terminal; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr
