"""How loss fell: a chart for each model and data set, and curves that are the same drawn once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exhibited import charts_of, steps_of, subjects
from gradsync.config import RunConfig
from gradsync.draw.series import drawable
from gradsync.exhibit.form import Chart
from gradsync.exhibit.runs.curves import MOST_LINES, MOST_POINTS, curve_sections
from gradsync.ledger.summary import summarize
from gradsync.record import Run, rank_records, strict_json, write_json
from made_up import made_up


def learnt(out: Path, strategy: str, loss: float = 1.0, model: str = "logistic", **settings: Any) -> Run:
    config = RunConfig(model=model, strategy=strategy, workers=2, batch_size=64, **{"steps": 20, **settings})
    return made_up(out, config, loss=loss)


def lines(chart: Chart) -> set[object]:
    return {row[chart.colour] for row in chart.rows}


def drawn_lines(chart: Chart) -> set[object]:
    return {row[chart.colour] for row in drawable(chart)}


def test_one_chart_for_each_model_and_data_set(tmp_path: Path):
    runs = [
        learnt(tmp_path, way, loss, model)
        for model in ("logistic", "vgg11")
        for way, loss in (("ddp", 1), ("ring", 2))
    ]
    charts = charts_of(curve_sections(subjects(runs)))
    assert list(charts) == ["Training loss: logistic on synthetic", "Training loss: vgg11 on synthetic"]
    assert [len(lines(chart)) for chart in charts.values()] == [2, 2]


def test_equal_curves_are_said_to_be_equal_and_drawn_once(tmp_path: Path):
    runs = [
        learnt(tmp_path, way, loss) for way, loss in (("ddp", 1.0), ("ring", 1.0), ("all-reduce", 1.0), ("none", 2.0))
    ]
    (section,) = curve_sections(subjects(runs))
    assert section.sentences == [
        "ddp, ring and all-reduce have the same training loss, to 6 digits, at every point of the chart."
    ]
    (chart,) = charts_of([section]).values()
    assert drawn_lines(chart) == {"ddp = ring = all-reduce", "none"}
    assert len(drawable(chart)) == 2 * 20


@pytest.mark.parametrize(
    ("loss", "is_same"), [pytest.param("1.0001", False, id="seen"), pytest.param("1.0000001", True, id="too little")]
)
def test_what_is_said_of_two_curves_that_differ_in_one_step_is_what_is_drawn(
    tmp_path: Path, loss: str, is_same: bool
):
    one, other = learnt(tmp_path, "ddp"), learnt(tmp_path, "ring")
    rows = (other.folder / "rank-0.jsonl").read_text()
    changed = rows.replace('"step": 7, "epoch": 1, "loss": 1.0', f'"step": 7, "epoch": 1, "loss": {loss}')
    assert changed != rows
    (other.folder / "rank-0.jsonl").write_text(changed)
    (section,) = curve_sections(subjects([one, other]))
    assert bool(section.sentences) == is_same
    (chart,) = charts_of([section]).values()
    assert drawn_lines(chart) == ({"ddp = ring"} if is_same else {"ddp", "ring"})


def test_many_steps_are_averaged_and_many_runs_are_not_all_drawn(tmp_path: Path):
    runs = [learnt(tmp_path, "ddp", lr=0.01 * (n + 1), loss=n + 1, steps=300) for n in range(MOST_LINES + 1)]
    (section,) = curve_sections(subjects(runs))
    (chart,) = charts_of([section]).values()
    assert len(lines(chart)) == MOST_LINES
    assert section.sentences == [f"logistic on synthetic: the first {MOST_LINES} of {MOST_LINES + 1} runs are drawn."]
    assert len(chart.rows) // MOST_LINES <= MOST_POINTS
    assert max(int(row["step"] or 0) for row in chart.rows) == 300


def test_a_single_step_is_no_curve(tmp_path: Path):
    assert curve_sections(subjects([learnt(tmp_path, "ddp", steps=1)])) == []


def test_accuracy_after_every_epoch_of_all_shares_together(tmp_path: Path):
    """Each rank has tested half the set after either epoch."""
    run = steps_of(tmp_path, "ddp", 2, 0.1, steps=20)
    for rank, right in ((0, (100, 300)), (1, (200, 400))):
        path = run.folder / f"rank-{rank}.jsonl"
        kept = [line for line in path.read_text().splitlines() if '"kind": "test"' not in line]
        for epoch, correct in enumerate(right, 1):
            test = {"kind": "test", "step": 10 * epoch, "epoch": epoch, "whole": False}
            write_json(tmp_path / "row", {**test, "loss_sum": 1.0, "correct": correct, "count": 500}, indent=None)
            kept.append((tmp_path / "row").read_text().strip())
        path.write_text("\n".join(kept) + "\n")
    charts = charts_of(curve_sections(subjects([run])))
    chart = charts["Test accuracy: logistic on synthetic"]
    assert [(row["epoch"], row["accuracy"]) for row in chart.rows] == [(1, pytest.approx(30)), (2, pytest.approx(70))]


def test_the_last_point_of_an_asynchronous_run_is_the_accuracy_in_the_tables(tmp_path: Path):
    """Worker 1 has seen the most updates when it tests last."""
    run = steps_of(tmp_path, "ps-async", 2, 0.1, steps=20)
    for rank, points in ((0, ((300, 10), (350, 19))), (1, ((200, 9), (400, 20)))):
        path = run.folder / f"rank-{rank}.jsonl"
        kept = [line for line in path.read_text().splitlines() if '"kind": "test"' not in line]
        for epoch, (correct, update) in enumerate(points, 1):
            test = {"kind": "test", "step": 10 * epoch, "epoch": epoch, "whole": True, "update": update}
            kept.append(strict_json({**test, "loss_sum": 1.0, "correct": correct, "count": 500}))
        path.write_text("\n".join(kept) + "\n")
    summed_up = summarize(run.resolved, rank_records(run.folder, 2), None, 1.0)
    chart = charts_of(curve_sections(subjects([run])))["Test accuracy: logistic on synthetic"]
    assert [row["accuracy"] for row in chart.rows] == [pytest.approx(60), pytest.approx(80)]
    assert summed_up.test and 100 * summed_up.test.accuracy == chart.rows[-1]["accuracy"]
