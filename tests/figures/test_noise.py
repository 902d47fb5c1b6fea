"""Whether a difference is more than chance: against repeats, else against the little that one run shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhibited import steps_of, with_figures
from gradsync.figures.cases import Case
from gradsync.figures.catalogue.of_learning import ACCURACY, TEST_LOSS
from gradsync.figures.catalogue.of_time import EPOCH, STEP, TRAIN
from gradsync.figures.figure import Figure
from gradsync.figures.noise import chance, error_of, estimate, is_chance, is_repeated, relative_chance
from gradsync.figures.value import Spread


def repeats(out: Path, *seconds: float) -> Case:
    """A step takes that long in each run."""
    return Case(tuple(steps_of(out, "ddp", 2, each, seed=seed) for seed, each in enumerate(seconds)))


def one(out: Path, seconds: float, spread: float = 0.0) -> Case:
    """One run of 12 steps, of which 11 are timed."""
    return Case((with_figures(steps_of(out, "ddp", 2, seconds), seconds_per_step_spread=spread),))


def test_of_one_run_the_least_uncertainty_is_that_of_its_steps(tmp_path: Path):
    case = one(tmp_path, 0.5, spread=0.1)
    error = 0.1 / 11**0.5
    assert error_of(case, STEP) == pytest.approx(error)
    assert estimate(case, STEP) == Spread(pytest.approx(0.5), pytest.approx(error))
    for figure in (EPOCH, TRAIN):  # sums of steps
        value = case.so_far(figure)
        assert isinstance(value, float) and error_of(case, figure) == pytest.approx(value * error / 0.5)
    assert is_chance(case, one(tmp_path, 0.6, spread=0.15), STEP)
    assert not is_chance(case, one(tmp_path, 0.7, spread=0.1), STEP)


def test_what_differs_by_less_than_the_noise_of_a_figure_is_the_same(tmp_path: Path):
    assert is_chance(one(tmp_path, 0.5), one(tmp_path, 0.51), STEP)
    assert not is_chance(one(tmp_path, 0.5), one(tmp_path, 0.52), STEP)


def test_repeats_decide_and_the_fewer_they_are_the_more_a_difference_must_be(tmp_path: Path):
    two, four = [0.9, 1.1], [0.9, 1.1, 0.9, 1.1]
    wide = [chance([repeats(tmp_path, *each), repeats(tmp_path, *each)], STEP) for each in (two, four)]
    deviations = 0.02**0.5, (0.04 / 3) ** 0.5
    assert wide[0] == pytest.approx(4.3 * deviations[0])  # of 2 degrees of freedom, over the root of 2, twice
    assert wide[1] == pytest.approx(2.4 * deviations[1] / 2**0.5)
    assert is_chance(repeats(tmp_path, 0.9, 1.1), repeats(tmp_path, 1.4, 1.6), STEP)
    assert not is_chance(repeats(tmp_path, *four), repeats(tmp_path, 1.4, 1.6, 1.4, 1.6), STEP)


def test_as_a_share_it_is_that_of_a_ratio(tmp_path: Path):
    cases = [repeats(tmp_path, 0.9, 1.1), repeats(tmp_path, 0.9, 1.1)]
    assert relative_chance(cases, STEP) == pytest.approx(chance(cases, STEP))
    mixed = [repeats(tmp_path, 0.9, 1.1), one(tmp_path, 1.0)]
    assert not is_repeated(mixed) and is_repeated(cases)
    assert relative_chance(mixed, STEP) == pytest.approx(2 * 0.1), "as if it were that of steps"


def test_an_accuracy_varies_with_the_test_samples_and_with_the_seed(tmp_path: Path):
    sampled = (0.25 / 2000) ** 0.5  # every rank has tested 1,000
    case = one(tmp_path, 0.5)
    assert error_of(case, ACCURACY) == pytest.approx(sampled)
    assert error_of(repeats(tmp_path, 0.5, 0.6), ACCURACY) == pytest.approx(sampled), "all seeds reached the same"


def test_of_what_no_run_shows_the_spread_of_nothing_is_known_but_the_least(tmp_path: Path):
    case = one(tmp_path, 0.5)
    assert error_of(case, TEST_LOSS) == 0.0 and estimate(case, TEST_LOSS) == case.so_far(TEST_LOSS)

    def loss(value: float) -> Figure:
        return Figure("loss", "loss", lambda at: value * at.figures.steps, "", learnt=True)

    assert error_of(case, loss(1.0)) == 0.0
    assert is_chance(case, case, loss(1.0))
