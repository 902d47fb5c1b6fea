"""A trace is checked against the Trace Event Format: what a viewer needs to draw it."""

from __future__ import annotations

import pytest

from gradsync.ledger.trace import trace
from gradsync.record import RankRecord, record_of
from trace_format import check_format, check_nesting

START = {"kind": "start", "role": "worker", "node": "n", "kernel": "k", "world_size": 2}


def rank(late: float) -> RankRecord:
    calls = [["all_reduce", "gradients", 8, 8, 0.2 + late, 0.6, 1], ["all_reduce", "gradients", 4, 4, 0.5, 0.7, 1]]
    calls.append(["broadcast", "buffers", 2, 0, 0.8, 0.85, 0])
    step = {"kind": "step", "step": 1, "seconds": 1.0, "begin": 7.0, "first_collective": 0, "collectives": calls}
    step["phases"] = [["forward", 0.0], ["backward", 0.1], ["drain", 0.55], ["agree", 0.7], ["optimizer", 0.72]]
    step["phases"].append(["other", 0.78])
    host = {"kind": "host", "memory_bytes": 1e8, "cpu_seconds": 1.0, "sent_bytes": 10}
    hosts = [host | {"time": 6.9}, host | {"time": 8.0, "cpu_seconds": 1.5, "sent_bytes": 40}]
    return record_of([START, hosts[0], step, hosts[1]])


def test_lanes_spans_arrows_and_counters():
    whole = trace([rank(0.0), rank(0.2)])
    check_format(whole)
    events = whole["traceEvents"]
    lanes = [event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 1]
    assert lanes == ["training", "communication 1", "communication 2"], "two buckets at once"
    start, end = (event for event in events if event["ph"] in "sf")
    assert (start["pid"], end["pid"]) == (2, 1), "from the late rank to the one that waited"
    assert start["ts"] == end["ts"] == pytest.approx((0.1 + 0.2 + 0.2) * 1e6)
    wait = next(event for event in events if event["name"] == "wait")
    assert (wait["pid"], wait["dur"]) == (1, pytest.approx(0.2e6))
    reduce = next(event for event in events if event["name"] == "all_reduce")
    assert reduce["args"] == {"kind": "gradients", "sent_bytes": 8, "received_bytes": 8, "number": 0}
    assert {event["name"] for event in events if event["ph"] == "C"} == {"memory", "CPU", "sent"}


def test_overlapping_spans_would_be_caught():
    with pytest.raises(AssertionError, match="overlap"):
        check_nesting([(0.0, 2.0), (1.0, 3.0)])


def test_a_run_without_steps_has_a_trace_without_spans():
    assert trace([record_of([START])])["traceEvents"][0]["ph"] == "M"
