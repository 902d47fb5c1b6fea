"""Metrics as figures, as columns, and in sentences: those a run has, by their names, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhibited import column, steps_of, subjects, with_figures
from gradsync.errors import InputError
from gradsync.exhibit.cases import STRATEGY, case_table
from gradsync.exhibit.columns import choose
from gradsync.exhibit.findings import findings
from gradsync.exhibit.runs.table import runs_table
from gradsync.figures.cases import one_by_one
from gradsync.figures.catalogue.of_learning import ACCURACY, PERPLEXITY, TRAIN_ACCURACY
from gradsync.figures.metrics import metric_figure, metrics_of
from gradsync.figures.value import mean_of
from gradsync.record import Run, summaries


def run_with(folder: Path, strategy: str, **metrics: float) -> Run:
    """A run whose test gave these figures."""
    run = steps_of(folder, strategy, 2, 0.5)
    test = summaries.Test(loss=1.0, count=1000, metrics=metrics)
    return with_figures(run, metrics=list(metrics), test=test, loss="own.py:loss")


def names(runs: list[Run]) -> list[str]:
    return [each.name for each in runs_table(subjects(runs)).columns]


def test_a_table_has_the_metrics_of_its_runs_and_no_others(tmp_path: Path):
    own = run_with(tmp_path, "ddp", distance=1.2345678, rmse=0.25)
    assert names([own])[-2:] == ["distance", "rmse"] and "accuracy" not in names([own])
    assert runs_table(subjects([own])).texts()[0][-2:] == ["1.235", "0.250"]
    assert "accuracy" not in names([run_with(tmp_path, "ring")])
    both = [own, run_with(tmp_path, "ring", perplexity=8.125)]
    assert names(both)[-3:] == ["distance", "rmse", "perplexity"]
    assert column(runs_table(subjects(both)), "perplexity") == [None, 8.125]


def test_a_record_of_an_earlier_version_has_accuracy(tmp_path: Path):
    old = with_figures(steps_of(tmp_path, "ddp", 2, 0.5), metrics=None)
    assert old.summary
    assert metrics_of([old.summary]) == ["accuracy"]
    assert summaries.Test(loss=1.0, count=10, accuracy=0.5, correct=5).metrics == {"accuracy": 0.5}


def test_what_a_loop_of_ones_own_has_logged_is_of_its_training(tmp_path: Path):
    run = steps_of(tmp_path, "ddp", 2, 0.5)
    logged = with_figures(run, metrics=[], test=None, train_metrics={"f1": [0.25, 0.5]})
    assert names([logged])[-1] == "training f1"
    assert "ddp reaches a training f1 of 0.500." in findings(subjects([logged]))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([4.5], "ddp reaches a perplexity of 4.50 on the test set."),
        ([4.501, 4.499], "All 2 reach a perplexity of 4.50 on the test set."),
        ([4.5, 8.0], "Test perplexity lies between 4.50 (ddp) and 8.00 (ring)."),
    ],
)
def test_what_was_reached_is_told_by_its_name(tmp_path: Path, values: list[float], sentence: str):
    pairs = zip(("ddp", "ring"), values, strict=False)
    assert sentence in findings(subjects([run_with(tmp_path, name, perplexity=value) for name, value in pairs]))


def test_in_studies_accuracy_stands_for_the_metrics_of_the_runs(tmp_path: Path):
    def columns(run: Run) -> list[str]:
        found = one_by_one([run])
        return [each.name for each in case_table("t", found, STRATEGY, [TRAIN_ACCURACY, ACCURACY]).columns]

    assert columns(run_with(tmp_path, "ddp", perplexity=3.0)) == ["strategy", "perplexity"]
    assert columns(run_with(tmp_path, "ddp", accuracy=0.5)) == ["strategy", "training accuracy", "accuracy"]
    assert columns(run_with(tmp_path, "ddp")) == ["strategy"]


def test_metrics_are_columns_by_name():
    assert metric_figure("perplexity") is PERPLEXITY
    assert metric_figure("train-accuracy") is TRAIN_ACCURACY
    assert metric_figure("step").unit == "", "a metric of this name is no time"
    assert list(choose(["f1", "train-f1", "step"], ["f1"])) == ["f1", "train-f1", "step"]
    with pytest.raises(InputError, match="unknown column 'f1'"):
        choose(["f1"])


def test_tokens_are_counted_where_a_sample_is_a_sequence(tmp_path: Path):
    run = steps_of(tmp_path, "ddp", 2, 0.5)
    assert run.summary and run.summary.samples_per_second
    table = runs_table(subjects([with_figures(run, positions=64)]))
    (tokens,) = column(table, "tokens")
    assert mean_of(tokens) == pytest.approx(64 * run.summary.samples_per_second)
    assert "tokens" not in names([run])
    assert any("tokens per second" in each for each in findings(subjects([with_figures(run, positions=64)])))
