"""Against which run a speed-up is, how uncertain it is, and what would be ideal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exhibited import HOST, cluster_shape, steps_of, with_figures
from gradsync.config import objects
from gradsync.exhibit.speed_ups import explained
from gradsync.figures.cases import Case, cases, one_by_one
from gradsync.figures.catalogue.of_speed_up import EFFICIENCY, SPEED_UP, SpeedUp, speed_up
from gradsync.figures.value import Spread, deviation_of, mean_of
from gradsync.record import Run


def of_last(runs: list[Run]) -> SpeedUp | None:
    found = one_by_one(runs)
    return speed_up(found[-1], found)


def ratio_of_last(runs: list[Run]) -> float | None:
    found = of_last(runs)
    return mean_of(found.ratio) if found else None


def test_the_base_is_the_completed_local_run_of_the_same_comparison(tmp_path: Path):
    runs = [
        steps_of(tmp_path, "local", 1, 8.0),
        steps_of(tmp_path, "local", 1, 1.0),
        steps_of(tmp_path, "ddp", 2, 0.5),
    ]
    assert ratio_of_last(runs) == pytest.approx(2.0)
    runs[1] = with_figures(runs[1], status="failed")
    assert ratio_of_last(runs) == pytest.approx(16.0)


@pytest.mark.parametrize(
    "place",
    [
        {"cluster": cluster_shape(0.5)},
        {"cluster": cluster_shape()},
        {"device": "cuda:0"},
        {"host": {**HOST, "processor": "another"}},
        {"host": {**HOST, "cores": 64}},
        {"batch_size": 128},
    ],
)
def test_a_run_on_another_kind_of_place_or_with_another_batch_is_no_base(tmp_path: Path, place: dict[str, Any]):
    """A local run on half a core made ddp on bare ones 2.42 times as fast."""
    runs = [
        with_figures(run, host=HOST)
        for run in (
            steps_of(tmp_path, "local", 1, 1.0),
            steps_of(tmp_path, "local", 1, 8.0),
            steps_of(tmp_path, "ddp", 2, 0.5),
        )
    ]
    assert ratio_of_last(runs) == pytest.approx(16.0)
    runs[1] = with_figures(runs[1], **place)
    assert ratio_of_last(runs) == pytest.approx(2.0), "against the one before it"
    assert ratio_of_last(runs[1:]) is None


@pytest.mark.parametrize(
    "work",
    [
        {"model": "vgg11"},
        {"model_options": {"width": "256"}},
        {"norm": "none"},
        {"data": "cifar10"},
        {"augment": False},
        {"loss": "mse"},
        {"optimizer": "adam"},
        {"clip_norm": 1.0},
        {"accumulate": 2},
        {"sync_bn": True},
        {"precision": "fp64"},
        {"compile": True},
        {"loader_processes": 2},
    ],
)
def test_a_run_that_was_asked_for_other_work_is_no_base(tmp_path: Path, work: dict[str, Any]):
    """A gpt of width 64 was the base of one of width 256."""
    base, case = steps_of(tmp_path, "local", 1, 1.0), steps_of(tmp_path, "ddp", 2, 0.5)
    assert ratio_of_last([base, case]) == pytest.approx(2.0)
    assert ratio_of_last([asked_for(base, **work), case]) is None
    assert ratio_of_last([asked_for(base, **work), asked_for(case, **work)]) == pytest.approx(2.0)


@pytest.mark.parametrize("other", [{"seed": 1}, {"lr": 0.5}, {"optimizer": "sgd"}, {"train_samples": 640}])
def test_what_leaves_a_step_as_long_as_it_is_may_differ(tmp_path: Path, other: dict[str, Any]):
    """sgd is the optimizer of a run that was asked for none."""
    base, case = steps_of(tmp_path, "local", 1, 1.0), steps_of(tmp_path, "ddp", 2, 0.5)
    assert ratio_of_last([asked_for(base, **other), case]) == pytest.approx(2.0)


def test_two_classes_of_a_notebook_with_one_name_are_two(tmp_path: Path):
    one, other = (objects.remember(type("Net", (), {"width": width}), "Net", "model") for width in (64, 256))
    runs = [steps_of(tmp_path, way, size, 1.0 / size, model=one) for way, size in (("local", 1), ("ddp", 2))]
    assert [run.summary.model for run in runs if run.summary] == ["Net", "Net"]
    assert ratio_of_last(runs) == pytest.approx(2.0)
    assert ratio_of_last([runs[0], asked_for(runs[1], model=other)]) is None


def asked_for(run: Run, **settings: Any) -> Run:
    return replace(run, asked=replace(run.asked, **settings))


def test_threads_that_were_asked_for_must_be_the_same(tmp_path: Path):
    free, two = (steps_of(tmp_path, "ddp", 2, 0.5, threads=threads) for threads in (None, 2))
    assert ratio_of_last([steps_of(tmp_path, "local", 1, 1.0, threads=2), two]) == pytest.approx(2.0)
    assert ratio_of_last([steps_of(tmp_path, "local", 1, 1.0, threads=2), free]) is None
    assert ratio_of_last([steps_of(tmp_path, "local", 1, 1.0, threads=1), two]) is None
    # Chosen by the machine: the rule is the same, the numbers need not be.
    chosen = [steps_of(tmp_path, "local", 1, 1.0), free]
    assert ratio_of_last([with_figures(chosen[0], threads=2), with_figures(chosen[1], threads=1)]) == pytest.approx(2)


def test_in_weak_scaling_the_share_of_each_worker_must_be_the_same(tmp_path: Path):
    """Twice the samples in the same time."""
    one = steps_of(tmp_path, "local", 1, 1.0, batch_per_worker=32)
    two = steps_of(tmp_path, "ddp", 2, 1.0, batch_per_worker=32)
    assert ratio_of_last([one, two]) == pytest.approx(2.0)
    assert ratio_of_last([one, steps_of(tmp_path, "ddp", 2, 1.0, batch_per_worker=16)]) is None


def test_one_process_and_a_run_without_steps_have_none(tmp_path: Path):
    runs = [steps_of(tmp_path, "local", 1, 1.0), steps_of(tmp_path, "local", 1, 0.5)]
    assert of_last(runs) is None
    ddp = steps_of(tmp_path, "ddp", 2, 0.5)
    assert of_last([runs[0], with_figures(ddp, samples_per_second=None)]) is None
    assert of_last([with_figures(runs[0], samples_per_second=None), ddp]) is None
    assert of_last([ddp]) is None


def with_threads(tmp_path: Path, workers: int, one: int, each: int, cores: int = 2) -> list[Run]:
    """One process with so many threads, and workers with so many each, twice as fast."""
    host = {**HOST, "cores": cores}
    local, shared = steps_of(tmp_path, "local", 1, 1.0), steps_of(tmp_path, "ddp", workers, 0.5)
    return [with_figures(local, host=host, threads=one), with_figures(shared, host=host, threads=each)]


@pytest.mark.parametrize(
    ("workers", "one", "each", "cores", "ideal"),
    [
        (2, 2, 1, 2, 1.0),  # one process had all the cores
        (4, 2, 1, 2, 1.0),
        (2, 1, 1, 2, 2.0),  # it had one of them
        (4, 1, 1, 2, 2.0),  # four workers on two cores are at best twice as fast
        (4, 1, 1, 8, 4.0),
        (2, 8, 4, 8, 1.0),
    ],
)
def test_the_ideal_is_how_many_times_its_cores_the_workers_have(
    tmp_path: Path, workers: int, one: int, each: int, cores: int, ideal: float
):
    runs = with_threads(tmp_path, workers, one, each, cores)
    found = of_last(runs)
    assert found and found.ideal == pytest.approx(ideal)
    assert mean_of(found.efficiency) == pytest.approx(2.0 / ideal)
    told = explained([(Case((runs[-1],)), found)])
    assert bool(told) == (ideal != workers)
    if told:
        assert f"so the ideal speed-up is {ideal:.3g}×, not {workers}×." in told[0]


def test_without_the_number_of_cores_and_on_gpus_it_is_the_number_of_workers(tmp_path: Path):
    runs = [steps_of(tmp_path, "local", 1, 1.0), steps_of(tmp_path, "ddp", 4, 0.5)]
    found = of_last(runs)
    assert found and found.ideal == 4.0
    on_gpus = of_last([with_figures(run, device="cuda:0", host=HOST, threads=2) for run in runs])
    assert on_gpus and on_gpus.ideal == 4.0


def with_spread(run: Run, share: float) -> Run:
    assert run.summary and run.summary.seconds_per_step
    return with_figures(run, seconds_per_step_spread=share * run.summary.seconds_per_step)


def test_of_single_runs_the_uncertainty_is_that_of_the_means_of_their_steps(tmp_path: Path):
    runs = [
        with_spread(steps_of(tmp_path, "local", 1, 1.0, steps=10), 0.3),
        with_spread(steps_of(tmp_path, "ddp", 2, 0.5, steps=17), 0.4),
    ]
    assert [run.summary.timed_steps for run in runs if run.summary] == [9, 16]
    found = of_last(runs)
    assert found and isinstance(found.ratio, Spread) and not found.repeated
    assert found.ratio.mean == pytest.approx(2.0)
    assert found.ratio.deviation == pytest.approx(2.0 * (0.1**2 + 0.1**2) ** 0.5)
    assert deviation_of(found.efficiency) == pytest.approx(found.ratio.deviation / 2)


def test_of_repeats_it_is_that_of_another_run(tmp_path: Path):
    runs = [
        steps_of(tmp_path, way, workers, seconds, seed=seed)
        for way, workers, pace in (("local", 1, (1.0, 0.8)), ("ddp", 2, (0.5, 0.4)))
        for seed, seconds in enumerate(pace)
    ]
    found = cases(runs)
    assert [len(case.runs) for case in found] == [2, 2]
    item = speed_up(found[1], found)
    assert item and item.repeated and isinstance(item.ratio, Spread)
    share = Spread(72.0, 0.5**0.5 * 16).deviation / 72.0  # 64 and 80 samples a second
    assert item.ratio.mean == pytest.approx(2.0)
    assert item.ratio.deviation == pytest.approx(2.0 * 2**0.5 * share, rel=1e-3)


@pytest.mark.parametrize(("seconds", "spread", "beyond"), [(0.4, 0.01, True), (0.4, 1.0, False), (0.5, 0.01, False)])
def test_above_100_percent_only_beyond_the_uncertainty(tmp_path: Path, seconds: float, spread: float, beyond: bool):
    runs = [steps_of(tmp_path, "local", 1, 1.0), with_spread(steps_of(tmp_path, "ddp", 2, seconds), spread)]
    found = of_last(runs)
    assert found and found.beyond_ideal is beyond


def test_the_figures_are_found_among_the_cases_or_against_one_of_them(tmp_path: Path):
    runs = [
        steps_of(tmp_path, "local", 1, 1.0),
        steps_of(tmp_path, "ddp", 2, 0.8),
        steps_of(tmp_path, "ddp", 4, 0.4),
    ]
    found = one, two, four = one_by_one(runs)
    assert [mean_of(SPEED_UP.among(case, found)) for case in found] == pytest.approx([1.0, 1.25, 2.5])
    assert EFFICIENCY.among(one, found) is None
    assert [mean_of(EFFICIENCY.among(case, found)) for case in (two, four)] == pytest.approx([0.625, 0.625])
    assert mean_of(SPEED_UP.against(four, two)) == pytest.approx(2.0), "also where that is not one process"
    assert SPEED_UP.among(two, [two, four]) is None
    assert two.value(SPEED_UP) is None, "a run by itself has none"
    failed = one_by_one([with_figures(runs[0], status="failed")])[0]
    assert SPEED_UP.against(four, failed) is None
