"""The one splitter: who did what, from when to when."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.ledger.parts import HIDDEN, PARTS, ledgers, under_way
from gradsync.ledger.spans import TRAINING, Span, covered, laid_over, spans
from gradsync.ledger.stamps import Step, read_step
from gradsync.ledger.trace import trace
from gradsync.record import record_of
from made_up import start_row, step_row

fractions = st.floats(0, 1, allow_nan=False)
OPERATIONS = ("all_reduce", "broadcast", "gather", "reduce", "receive")


def row(phases, calls, seconds=1.0, begin=100.0):
    """``calls``: operation, sent, received, start, end, overlapped."""
    collectives = [[operation, "gradients", sent, got, *rest] for operation, sent, got, *rest in calls]
    phases = [list(item) for item in phases]
    stamps = {"begin": begin, "phases": phases, "first_collective": 0, "collectives": collectives, "payload": {}}
    return step_row(1, seconds=seconds, **stamps)


@st.composite
def ranks_of_a_step(draw: st.DrawFn) -> list[dict]:
    """As recorders could leave it, and worse: phases in order, collectives anywhere, some in the background."""
    count = draw(st.integers(0, 5))
    operations = [draw(st.sampled_from(OPERATIONS)) for _ in range(count)]
    overlapped = [draw(st.booleans()) for _ in range(count)]
    rows = []
    for rank in range(draw(st.integers(1, 4))):
        seconds = draw(st.floats(0.01, 10))
        names = ["other", "data", "copy", "forward", "backward", "drain", "agree", "optimizer", "own phase"]
        cuts = sorted(draw(st.lists(fractions, min_size=len(names) - 1, max_size=len(names) - 1)))
        bounds = [0.0, *(cut * seconds for cut in cuts)]
        calls = []
        for operation, background in zip(operations, overlapped, strict=True):
            start, end = sorted(draw(st.tuples(fractions, fractions)))
            sent, received = (0, 4) if (rank == 0) == (operation in ("gather", "reduce")) else (4, 0)
            sent, received = (4, 4) if operation == "all_reduce" else (sent, received)
            calls.append((operation, sent, received, start * seconds * 1.1, end * seconds * 1.1, int(background)))
        rows.append(row(zip(names, bounds, strict=True), calls, seconds, draw(st.floats(1e3, 1e3 + 5))))
    return rows


def on_thread(found: list[Span], rank: int) -> list[Span]:
    return [span for span in found if span.rank == rank and span.lane == TRAINING]


@given(ranks_of_a_step())
def test_the_training_thread_is_tiled_and_its_sums_are_the_ledger(rows: list[dict]):
    ranks = [read_step(each) for each in rows]
    found = spans(ranks)
    for rank, (step, ledger) in enumerate(zip(ranks, ledgers(ranks), strict=True)):
        own = on_thread(found, rank)
        assert (own[0].start, own[-1].end) == (step.begin, step.end)
        assert all(one.end == other.start for one, other in pairwise(own)), "no gap and no overlap"
        assert all(span.end > span.start for span in own)
        for part in PARTS:
            assert ledger[part] == pytest.approx(sum(s.end - s.start for s in own if s.part == part), abs=1e-9)
        assert sum(ledger[part] for part in PARTS) == pytest.approx(step.seconds)
        communicated = ledger["wait"] + ledger["wire"] + ledger[HIDDEN]
        assert communicated == pytest.approx(under_way(step), abs=1e-9)


@given(ranks_of_a_step())
def test_collectives_in_the_background_are_split_as_they_are_and_lanes_do_not_overlap(rows: list[dict]):
    ranks = [read_step(each) for each in rows]
    found = [span for span in spans(ranks) if span.background]
    for rank, step in enumerate(ranks):
        own = [span for span in found if span.rank == rank]
        whole = sum(max(0.0, min(item.end, step.end) - item.start) for item in step.collectives if item.overlapped)
        assert sum(span.end - span.start for span in own) == pytest.approx(whole, abs=1e-9)
        assert {span.part for span in own} <= {"wait", "wire"}


@given(ranks_of_a_step())
def test_a_trace_has_the_wait_and_the_wire_of_the_ledger(rows: list[dict]):
    records = [record_of([start_row(rank=rank, ranks=len(rows)), each]) for rank, each in enumerate(rows)]
    events = trace(records)["traceEvents"]
    for rank, ledger in enumerate(ledgers([read_step(each) for each in rows])):
        thread = [event for event in events if event["ph"] == "X" and event["tid"] == (rank + 1) * 1000 + TRAINING]
        for part in ("wait", "wire"):
            micros = sum(event["dur"] for event in thread if event["name"] == part)
            assert micros == pytest.approx(ledger[part] * 1e6, abs=10)


def step(*calls, late: float = 0.0) -> Step:
    phases = [("forward", 0.0), ("agree", 0.1)]
    return read_step(row(phases, [(name, sent, got, start + late, end, 0) for name, sent, got, start, end in calls]))


def waits(*ranks: Step) -> list[float]:
    return [round(ledger["wait"], 6) for ledger in ledgers(ranks)]


def test_all_wait_for_the_last_where_everybody_needs_everybody():
    assert waits(*(step(("all_reduce", 4, 4, 0.2, 0.9), late=late) for late in (0.0, 0.1, 0.4))) == [0.4, 0.3, 0.0]


def test_a_receiver_waits_for_the_root_alone():
    root = step(("broadcast", 8, 0, 0.3, 0.8))
    receivers = [step(("broadcast", 0, 8, at, 0.8)) for at in (0.2, 0.6)]
    assert waits(root, *receivers) == [0.3, 0.1, 0.0], "and the root for who takes it"
    early = step(("scatter", 8, 0, 0.3, 0.4))
    assert waits(early, step(("scatter", 0, 8, 0.6, 0.8))) == [0.0, 0.0], "it was gone before: it has not waited"


def test_a_root_waits_for_the_senders_and_they_for_it_alone():
    root = step(("gather", 0, 8, 0.3, 0.9))
    senders = [step(("gather", 4, 0, at, end)) for at, end in ((0.2, 0.5), (0.7, 0.9))]
    assert waits(root, *senders) == [0.4, 0.1, 0.0], "the first sender has nothing to do with the last"
    gone = step(("reduce", 4, 0, 0.2, 0.25))
    assert waits(step(("reduce", 0, 4, 0.3, 0.9)), gone) == [0.0, 0.0], "handed over before the root came"


def test_a_reduce_takes_every_rank_on_its_way():
    root, early, late = (step(("reduce", *sent, at, 0.9)) for *sent, at in ((0, 4, 0.3), (4, 0, 0.2), (4, 0, 0.7)))
    assert waits(root, early, late) == [0.4, 0.5, 0.0]


def test_without_bytes_nobody_is_known_to_be_the_root():
    ranks = [step(("broadcast", 0, 0, at, 0.8)) for at in (0.2, 0.5)]
    assert waits(*ranks) == [0.3, 0.0]


def test_the_end_of_backward_is_split_the_same_way_everywhere():
    phases = [("backward", 0.0), ("drain", 0.4), ("optimizer", 0.9)]
    here = read_step(row(phases, [("all_reduce", 4, 4, 0.3, 0.8, 1)]))
    there = read_step(row(phases, [("all_reduce", 4, 4, 0.6, 0.8, 1)]))
    own = [(s.part, round(s.start - 100, 6), round(s.end - 100, 6)) for s in on_thread(spans([here, there]), 0)]
    assert own == [
        ("backward", 0.0, 0.4),
        ("wait", 0.4, 0.6),
        ("wire", 0.6, 0.8),
        ("backward", 0.8, 0.9),
        ("optimizer", 0.9, 1.0),
    ]


def test_what_lies_over_takes_the_place_of_what_is_under_it():
    under = [("a", 0.0, 2.0), ("b", 2.0, 4.0), ("c", 4.0, 5.0)]
    assert laid_over(under, [("x", 1.0, 3.0), ("y", 3.0, 4.0)]) == [
        ("a", 0.0, 1.0),
        ("x", 1.0, 3.0),
        ("y", 3.0, 4.0),
        ("c", 4.0, 5.0),
    ]
    assert laid_over(under, []) == under


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8))
def test_covered_counts_every_moment_once(intervals):
    moments = {moment for start, end in intervals for moment in range(start, end)}
    assert covered(intervals) == len(moments)
