"""Runs that differ in their seed alone are one case; its figures are means with deviations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exhibited import steps_of, with_figures
from gradsync.figures.cases import Case, cases, one_by_one, way_of
from gradsync.figures.catalogue.of_learning import ACCURACY
from gradsync.figures.catalogue.of_time import EPOCH, STEP
from gradsync.figures.value import Spread, mean_of
from gradsync.record.summaries import Error

FAILED = Error(rank=0, type="OSError", message="no space", traceback="", log=[])


def test_repeats_are_one_case_in_the_order_in_which_they_were_made(tmp_path: Path):
    runs = [
        steps_of(tmp_path, way, 2, seconds, seed=seed)
        for seed, seconds in ((0, 0.1), (1, 0.3))
        for way in ("ddp", "all-reduce")
    ]
    found = cases(runs)
    assert [case.figures.strategy for case in found] == ["ddp", "all-reduce"]
    assert [case.runs for case in found] == [(runs[0], runs[2]), (runs[1], runs[3])]
    assert found[0].value(STEP) == Spread(pytest.approx(0.2), pytest.approx(0.2 / 2**0.5))
    assert len(one_by_one(runs)) == 4
    assert [way_of(case, found) for case in found] == ["ddp", "all-reduce"]
    both = [Case((steps_of(tmp_path, "ddp", workers, 0.1),)) for workers in (2, 4)]
    assert [way_of(case, both) for case in both] == ["ddp × 2", "ddp × 4"]


def test_one_run_has_the_deviation_within_it_where_there_is_one(tmp_path: Path):
    run = with_figures(steps_of(tmp_path, "ddp", 2, 0.1), seconds_per_step_spread=0.01)
    assert Case((run,)).value(STEP) == Spread(pytest.approx(0.1), 0.01)
    assert isinstance(Case((run,)).value(EPOCH), float)
    assert isinstance(Case((run,)).value(ACCURACY), float)


def test_what_was_not_completed_has_figures_only_so_far(tmp_path: Path):
    whole, cut = (steps_of(tmp_path, "ddp", 2, 0.1, seed=seed) for seed in (0, 1))
    for broken, status, remark in (
        (replace(cut, summary=None), "unfinished", "unfinished"),
        (with_figures(cut, status="failed", error=FAILED), "failed", "failed"),
        (with_figures(cut, status="failed", error=replace(FAILED, out_of_memory=True)), "failed", "out of memory"),
    ):
        case = Case((whole, broken))
        assert not case.completed
        assert (case.status, case.remark) == (status, remark)
        assert case.value(STEP) is None
        assert mean_of(case.so_far(STEP)) == pytest.approx(0.1)
    assert Case((whole,)).remark == ""


def test_a_rank_that_one_of_the_repeats_does_not_have_is_asked_of_the_others(tmp_path: Path):
    runs = [steps_of(tmp_path, "ddp", workers, 0.1) for workers in (1, 2)]
    assert mean_of(Case(tuple(runs)).so_far(STEP, rank=1)) == pytest.approx(0.1)
