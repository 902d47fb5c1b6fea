"""Several ranks in one run, and steps that are left out."""

from __future__ import annotations

from gradsync.live.trackers.base import Point
from gradsync.live.trackers.one_run import BURST, OneRun, count, merged, thinned


def test_rank_0_has_the_plain_names_and_others_only_what_differs():
    points = [
        Point(0, 1, {"train/loss": 1.0, "train/seconds_per_step": 0.1}),
        Point(1, 1, {"train/loss": 3.0, "train/seconds_per_step": 0.2, "ledger/wait_ms": 4.0}),
        Point(0, 1, {"ledger/wait_ms": 5.0}),
        Point(1, 2, {"test/accuracy": 0.5}),
    ]
    assert merged(points) == [
        (
            1,
            {
                "train/loss": 1.0,
                "train/seconds_per_step": 0.1,
                "rank-1/train/seconds_per_step": 0.2,
                "rank-1/ledger/wait_ms": 4.0,
                "ledger/wait_ms": 5.0,
            },
        )
    ]


def test_too_many_steps_are_thinned_evenly_and_no_test_is_lost():
    steps = [(step, {"a": 1.0, "b": 2.0}) for step in range(1, 101)]
    assert thinned(steps, 200) == steps
    assert [step for step, _ in thinned(steps, 50)] == list(range(4, 101, 4))
    steps[6] = (7, {"test/accuracy": 0.5})
    assert [step for step, _ in thinned(steps, 25)] == [7, *range(8, 101, 8), 100]
    assert thinned(steps, 0.0)[-1] == steps[-1]


def test_a_short_run_is_logged_in_full_and_a_fast_one_is_held_back():
    all_ranks = OneRun()
    points = [Point(0, step, {"a": 1.0}) for step in range(BURST)]
    assert count(all_ranks.steps(points)) == BURST
    assert 0 < count(all_ranks.steps(points)) < BURST / 2
