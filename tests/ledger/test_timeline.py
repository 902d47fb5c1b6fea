"""Steps of all ranks on one clock."""

from __future__ import annotations

import pytest

from gradsync.ledger.timeline import Timeline, whole_steps
from gradsync.record import record_of


def start(kernel: str, world_size: int = 2) -> dict:
    return {"kind": "start", "kernel": kernel, "world_size": world_size}


def clock(time: float, offset: float) -> dict:
    return {"kind": "clock", "time": time, "offset": offset, "bound": 0.001}


def step(number: int, begin: float) -> dict:
    row = {"kind": "step", "step": number, "seconds": 1.0, "begin": begin, "phases": [["other", 0.0]]}
    return row | {"first_collective": 0, "collectives": []}


def test_a_step_is_given_when_the_last_rank_has_finished_it():
    timeline = Timeline()
    assert timeline.add(0, start("k")) is None
    assert timeline.add(0, step(1, 10.0)) is None
    assert timeline.add(0, step(2, 11.0)) is None
    assert [item.begin for item in timeline.add(1, step(1, 10.5))] == [10.0, 10.5]


def test_ranks_that_do_not_train_are_not_waited_for():
    timeline = Timeline()
    timeline.add(0, start("k", world_size=3) | {"ranks": 2})
    timeline.add(0, step(1, 10.0))
    assert [item.begin for item in timeline.add(1, step(1, 10.5))] == [10.0, 10.5]


def test_under_one_kernel_the_clock_is_shared_whatever_the_ping_pong_said():
    ranks = [record_of([start("k"), *rows, step(1, 10.0)]) for rows in ([], [clock(5.0, 0.5)])]
    assert [item.begin for item in whole_steps(ranks)[0]] == [10.0, 10.0]


def test_another_hosts_clock_is_put_right_on_the_line_between_start_and_end():
    far = [start("b"), clock(100.0, 90.0), step(1, 105.0), clock(110.0, 91.0)]
    ranks = [record_of([start("a"), step(1, 14.0)]), record_of(far)]
    assert [item.begin for item in whole_steps(ranks)[0]] == pytest.approx([14.0, 14.5])


def test_steps_outside_the_range_and_steps_a_rank_did_not_finish_are_left_out():
    ranks = [record_of(step(number, number) for number in range(1, 1 + count)) for count in (4, 3)]
    assert [items[0].begin for items in whole_steps(ranks, first=2)] == [2, 3]
    assert whole_steps([record_of([{"kind": "step", "step": 1, "seconds": 1.0}])]) == [], "not measured"
