"""Stamps of one rank, without a group."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gradsync.ledger.stamps import read_step
from gradsync.meter.recorder import Recorder, Stopwatch


def test_phases_follow_each_other_from_the_begin_to_the_end_of_the_step():
    recorder = Recorder()
    recorder.begin()
    recorder.phase("forward")
    recorder.phase("backward")
    first = read_step(recorder.end())
    recorder.phase("forward")
    second = read_step(recorder.end())
    assert [name for name, *_ in first.phases] == ["other", "forward", "backward"]
    assert [name for name, *_ in second.phases] == ["other", "forward"]
    for step in (first, second):
        bounds = [(start, end) for _, start, end in step.phases]
        assert bounds[0][0] == step.begin
        assert bounds[-1][1] == step.end
        assert all(before[1] == after[0] for before, after in pairwise(bounds))
    assert second.begin == pytest.approx(first.end, abs=2e-6)


def test_collectives_are_numbered_through_the_steps_and_those_before_them_are_not():
    recorder = Recorder()
    recorder.finish(recorder.start("broadcast", "parameters", 10, 0))
    assert [call.operation for call in recorder.take_calls()] == ["broadcast"]
    recorder.begin()
    numbers = []
    for count in (2, 1, 0, 1):
        for _ in range(count):
            recorder.finish(recorder.start("all_reduce", "gradients", 8, 8, overlapped=True))
        step = read_step(recorder.end())
        numbers.append([item.number for item in step.collectives])
        assert all(step.begin <= item.start <= item.end <= step.end for item in step.collectives)
        assert all(item.overlapped and item.sent == 8 for item in step.collectives)
    assert numbers == [[0, 1], [2], [], [3]]


def test_a_stopwatch_knows_the_seconds_and_nothing_else():
    watch = Stopwatch()
    watch.begin()
    watch.phase("forward")
    watch.finish(watch.start("all_reduce", "gradients", 1, 1))
    assert list(watch.end()) == ["seconds"]
    assert watch.take_calls() == []
