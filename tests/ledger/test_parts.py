"""The ledger from stamps, without processes."""

from __future__ import annotations

import pytest

from gradsync.ledger.parts import HIDDEN, PARTS, ledgers, mean
from gradsync.ledger.stamps import read_step


def row(phases, collectives, seconds=1.0, begin=100.0, first=0):
    return {
        "seconds": seconds,
        "begin": begin,
        "phases": [list(item) for item in phases],
        "first_collective": first,
        "collectives": [["all_reduce", "gradients", 4, 4, *item] for item in collectives],
    }


def test_a_blocking_collective_is_split_at_the_last_arrival_and_leaves_its_phase():
    phases = [("data", 0.0), ("forward", 0.1), ("backward", 0.3), ("agree", 0.5), ("optimizer", 0.9)]
    early = read_step(row(phases, [(0.5, 0.85, 0)]))
    late = read_step(row([("data", 0.0), ("forward", 0.3), ("agree", 0.7), ("optimizer", 0.9)], [(0.7, 0.88, 0)]))
    one, other = ledgers([early, late])
    assert one == pytest.approx(
        {
            "data": 0.1,
            "copy": 0.0,
            "forward": 0.2,
            "backward": 0.2,
            "wait": 0.2,
            "wire": 0.15,
            "optimizer": 0.1,
            "other": 0.05,
            HIDDEN: 0.0,
        }
    )
    assert (other["wait"], other["wire"]) == pytest.approx((0.0, 0.18))


def test_what_ran_behind_backward_is_hidden_and_only_the_rest_is_exposed():
    phases = [("forward", 0.0), ("backward", 0.2), ("drain", 0.6), ("agree", 0.9), ("optimizer", 0.9)]
    here = read_step(row(phases, [(0.3, 0.7, 1), (0.5, 0.8, 1)]))
    there = read_step(row(phases, [(0.3, 0.7, 1), (0.65, 0.8, 1)]))
    ledger, _ = ledgers([here, there])
    assert ledger["backward"] == pytest.approx(0.4 + 0.1)  # 0.8 to 0.9: nothing under way, DDP's own work
    assert ledger["wait"] + ledger["wire"] == pytest.approx(0.2)
    assert ledger["wire"] == pytest.approx(0.2)  # the first bucket was moving all along
    assert ledger[HIDDEN] == pytest.approx(0.3)


def test_in_the_drain_waiting_is_where_no_bucket_has_everybody():
    phases = [("backward", 0.0), ("drain", 0.4), ("optimizer", 0.9)]
    here = read_step(row(phases, [(0.4, 0.9, 1)]))
    there = read_step(row(phases, [(0.7, 0.9, 1)]))
    ledger, _ = ledgers([here, there])
    assert (ledger["wait"], ledger["wire"]) == pytest.approx((0.3, 0.2))


def test_who_has_handed_over_and_gone_before_the_last_came_only_waited():
    sender = read_step(row([("agree", 0.0)], [(0.1, 0.2, 0)]))
    late = read_step(row([("agree", 0.0)], [(0.5, 0.6, 0)]))
    one, _ = ledgers([sender, late])
    assert (one["wait"], one["wire"]) == pytest.approx((0.1, 0.0))


def test_an_exchange_with_neighbours_does_not_wait_for_a_rank_that_comes_after_its_end():
    def exchange(start, end):
        step = row([("forward", 0.0), ("agree", start)], [(start, end, 0)])
        step["collectives"][0][0] = "exchange"
        return read_step(step)

    first, second, last = ledgers([exchange(0.1, 0.5), exchange(0.2, 0.9), exchange(0.7, 1.0)])
    assert (first["wait"], first["wire"]) == pytest.approx((0.1, 0.3))  # it had the second, and ended before the last
    assert (second["wait"], second["wire"]) == pytest.approx((0.5, 0.2))
    assert (last["wait"], last["wire"]) == pytest.approx((0.0, 0.3))


def test_a_collective_inside_forward_is_taken_from_forward():
    step = read_step(row([("forward", 0.0), ("backward", 0.5)], [(0.2, 0.3, 0), (0.6, 0.9, 0)]))
    ledger = ledgers([step])[0]
    assert (ledger["forward"], ledger["backward"], ledger["wire"]) == pytest.approx((0.4, 0.2, 0.4))


def test_the_mean_of_nothing_is_nothing():
    assert mean([]) is None
    assert mean([dict.fromkeys((*PARTS, HIDDEN), 1.0), dict.fromkeys((*PARTS, HIDDEN), 3.0)])["wire"] == 2.0


@pytest.mark.parametrize(("kind", "wait", "wire"), [("parameters", 0.0, 0.2), ("control", 0.2, 0.0)])
def test_a_phase_of_the_strategys_own_counts_as_other_and_only_a_header_is_waited_for(
    kind: str, wait: float, wire: float
):
    one = row([("forward", 0.0), ("compress", 0.5)], [])
    one["collectives"] = [["receive", kind, 0, 4, 0.6, 0.8, 0]]
    ledger = ledgers([read_step(one), read_step(row([("forward", 0.0)], [(0.9, 0.95, 0)]))])[0]
    found = (ledger["forward"], ledger["other"], ledger["wait"], ledger["wire"])
    assert found == pytest.approx((0.5, 0.3, wait, wire))
