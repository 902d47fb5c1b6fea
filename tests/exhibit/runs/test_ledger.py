"""Where the time went: tables and charts of the ledger, from records, without processes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exhibited import column, exhibits_of, steps_of, subjects, tables_of, text, with_figures, written_row
from gradsync.config import RunConfig
from gradsync.exhibit.form import Chart, Table
from gradsync.exhibit.runs.ledger import MOST_TIMED, parts_chart, time_section
from gradsync.ledger.parts import HIDDEN, PARTS
from gradsync.record import Run, read_run, write_json
from made_up import made_up


def measured(out: Path, strategy: str, hidden: float = 0.0, workers: int = 2, **parts: float) -> Run:
    """With this ledger, on every rank."""
    run, ledger = steps_of(out, strategy, workers, 0.5), dict.fromkeys(PARTS, 0.0) | parts
    assert run.summary
    ranks = [replace(rank, ledger=ledger, hidden_comm=hidden) for rank in run.summary.ranks]
    return with_figures(run, ledger=ledger, hidden_comm=hidden, ranks=ranks)


@pytest.fixture
def two_ways(tmp_path: Path) -> list[Run]:
    return [
        measured(tmp_path, "local", workers=1, forward=0.3, backward=0.6),
        measured(tmp_path, "gather-scatter", hidden=0.02, forward=0.15, backward=0.3, wait=0.05, wire=0.1),
    ]


def test_a_line_and_a_bar_per_strategy_in_80_columns(two_ways: list[Run]):
    (section,) = time_section(subjects(two_ways))
    shown = text(section, 80)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in shown
    (table,) = tables_of([section]).values()
    row = written_row(table, "gather-scatter")
    assert list(row.values())[1:] == ["0.00", "0.00", "150", "300", "50.0", "100", "0.00", "0.00", "600", "20.0"]
    assert list(row)[1:] == [*PARTS, "= step", "hidden"]
    local, gathered = (line.split()[1] for line in lines if "ff" in line)
    assert len(local) / len(gathered) == pytest.approx(0.9 / 0.6, abs=0.05)
    assert local == "f" * (len(local) // 3) + "b" * (len(local) - len(local) // 3)
    assert gathered == "f" * (g := len(gathered) // 4) + "b" * 2 * g + gathered[3 * g :]
    assert set(gathered[3 * g :]) == {"-", "~"}
    assert gathered.count("~") == pytest.approx(2 * gathered.count("-"), abs=1)


def test_a_single_run_is_shown_rank_by_rank(tmp_path: Path):
    (section,) = time_section(subjects([measured(tmp_path, "ddp", data=0.2, forward=0.1)]))
    (table,) = tables_of([section]).values()
    assert table.title == "ddp: the ledger of a step, rank by rank"
    assert column(table, "rank") == ["rank 0", "rank 1"]
    assert column(table, "data") == [pytest.approx(200)] * 2
    assert column(table, "= step") == [pytest.approx(300)] * 2
    (chart,) = [item for item in section.exhibits if isinstance(item, Chart)]
    assert {row["run"] for row in chart.rows} == {"rank 0", "rank 1"}
    (alone,) = time_section(subjects([measured(tmp_path, "local", workers=1, forward=0.1)]))
    assert column(tables_of([alone])["The ledger of a step"], "run") == ["local"], "one rank is no comparison"


def test_the_parts_of_the_chart_are_those_of_the_table_and_add_up(two_ways: list[Run]):
    shown = subjects(two_ways)
    chart, (table,) = parts_chart(shown), tables_of(time_section(shown)).values()
    for name in ("local", "gather-scatter"):
        parts = {row["part"]: row["ms"] for row in chart.rows if row["run"] == name}
        row = written_row(table, name)
        assert {part: table.columns[1].text(value) for part, value in parts.items()} == {p: row[p] for p in PARTS}
        whole = dict(zip(column(table, "run"), column(table, "= step"), strict=True))[name]
        assert sum(value for value in parts.values() if isinstance(value, float)) == pytest.approx(whole)


def test_computing_against_communicating_is_of_runs_that_communicate(two_ways: list[Run]):
    exhibits = exhibits_of(time_section(subjects(two_ways)))
    (chart,) = [item for item in exhibits if item.title == "Computation against communication"]
    assert isinstance(chart, Chart)
    assert {row["run"]: row["ms"] for row in chart.rows if row["part"] == "compute"} == {
        "gather-scatter": pytest.approx(450)
    }
    assert [row["ms"] for row in chart.rows if row["part"] == "communication"] == [pytest.approx(150)]
    assert [row["ms"] for row in chart.rows if row["part"] == "hidden communication"] == [pytest.approx(20)]


def test_of_many_runs_it_is_said_how_many_are_drawn(tmp_path: Path):
    runs = [measured(tmp_path, "ddp", forward=0.1)] * (MOST_TIMED + 1)
    (section,) = time_section(subjects(runs))
    chart, table, *_ = section.exhibits
    assert isinstance(chart, Chart) and len({row["run"] for row in chart.rows}) == MOST_TIMED
    assert isinstance(table, Table) and len(table.rows) == MOST_TIMED + 1
    assert list(section.sentences) == [f"The first {MOST_TIMED} of {MOST_TIMED + 1} runs are drawn."]
    (few,) = time_section(subjects(runs[1:]))
    assert not few.sentences


def test_a_summary_that_has_hidden_comm_inside_the_ledger_is_shown_alike(tmp_path: Path, two_ways: list[Run]):
    config = RunConfig(model="logistic", strategy="all-reduce", workers=2, steps=6)
    new = made_up(tmp_path, config, wire=0.01)
    old = json.loads((new.folder / "summary.json").read_text()) | {"schema": 2}
    for figures in (old, *old["ranks"]):
        figures["ledger"][HIDDEN] = figures.pop(HIDDEN)
        for added in ("epochs", "lost", "servers", "train_accuracy", "host", "cluster", "updates"):
            figures.pop(added, None)
    write_json(new.folder / "summary.json", old)
    found = read_run(new.folder)
    assert isinstance(found, Run)

    def shown(run: Run) -> str:
        return "".join(text(section) for section in time_section(subjects([two_ways[0], run])))

    assert shown(found) == shown(new)
    assert "all-reduce" in shown(new)


def test_a_bar_is_never_longer_than_its_place_whatever_the_parts(tmp_path: Path, two_ways: list[Run]):
    odd = measured(tmp_path, "odd", forward=1e12, backward=-1e12, data=1e-3)
    for width in (60, 100):
        (section,) = time_section(subjects([two_ways[0], odd]))
        assert max(map(len, text(section, width).splitlines())) <= width


def test_runs_that_were_not_measured_have_no_section(tmp_path: Path):
    run = with_figures(steps_of(tmp_path, "ddp", 2, 0.5), ledger=None)
    assert time_section(subjects([run, run])) == []
    both = time_section(subjects([run, measured(tmp_path, "ring", forward=0.1)]))
    assert [column(item, "run") for item in exhibits_of(both) if isinstance(item, Table)] == [["ring"]]
