"""Who is to blame when nodes lose each other."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.errors import NOT_RECORDED
from gradsync.launch.outcome import Outcome, cut_off, explain
from gradsync.record import RankRecord, record_of


def rank(number: int, silent: list[str] | None = None, **error: Any) -> RankRecord:
    rows = [{"kind": "start", "node": f"node{number + 1}", "address": f"10.0.0.{number + 1}"}]
    if silent is not None:
        row = {"kind": "error", "type": "RuntimeError", "message": "gloo: timed out", "traceback": "", "time": 1.0}
        rows.append(row | {"lost_peer": True, "silent_peers": silent} | error)
    return record_of(rows)


@given(size=st.integers(3, 8), data=st.data())
def test_the_node_all_others_lost_is_named_whatever_it_says_of_them(size: int, data: st.DataObject):
    cut = data.draw(st.integers(0, size - 1))
    others = [f"10.0.0.{number + 1}" for number in range(size) if number != cut]
    ranks = [rank(number, others if number == cut else [f"10.0.0.{cut + 1}"]) for number in range(size)]
    found = cut_off(ranks)
    assert found and found.rank == cut
    assert found.message.startswith(f"node{cut + 1} cannot be reached: ranks ")


def test_of_two_nobody_can_say_whose_link_it_is():
    found = cut_off([rank(0, ["10.0.0.2"]), rank(1, ["10.0.0.1"])])
    assert found and found.message.startswith("node1 and node2 cannot be reached: they get no answer from each other")


def test_another_cause_goes_before_a_lost_peer(tmp_path):
    cause = rank(1, [], type="ValueError", message="my own mistake", lost_peer=False)
    ranks = [rank(0, ["10.0.0.2"]), cause, rank(2, ["10.0.0.2"])]
    assert cut_off(ranks) is None
    error = explain(Outcome(exit_codes={0: 1, 1: 1, 2: 1}), ranks, tmp_path)
    assert error and (error.rank, error.message) == (1, "my own mistake")


def test_a_peer_that_closed_its_connection_was_reached():
    assert cut_off([rank(0, []), rank(1), rank(2, [])]) is None


@pytest.mark.parametrize("ran_out", [True, False])
def test_memory_is_blamed_only_if_the_kernel_says_so(tmp_path: Path, ran_out: bool):
    killed = Outcome(exit_codes={1: -signal.SIGKILL}, memory_ran_out=ran_out)
    unnamed = Outcome(failure=ChildProcessError("one of the processes ended"), memory_ran_out=ran_out)
    for outcome in (killed, unnamed):
        error = explain(outcome, [rank(0), rank(1)], tmp_path)
        assert error and ("memory ran out" in error.message) == error.out_of_memory == ran_out


def test_signals_that_mean_something_have_a_sentence(tmp_path: Path):
    error = explain(Outcome(exit_codes={0: -signal.SIGBUS}), [rank(0)], tmp_path)
    assert error and "a file it had mapped into memory" in error.message
    error = explain(Outcome(exit_codes={0: NOT_RECORDED}), [rank(0)], tmp_path)
    assert error and "is the disk full, or the run folder gone?" in error.message
