"""Whose link is slow, told from made-up figures of the kernel."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gradsync.ledger.slow_links import slow_link
from gradsync.ledger.stragglers import sentence
from gradsync.record import RankRecord, record_of
from gradsync.record.summaries import StragglerFound

STEPS, MEGABYTES = 10, 50


def ring(rates: list[float]) -> list[RankRecord]:
    """Each rank has sent so many megabytes to the next, as fast as the slower link of the two; rates in MB/s."""
    size = len(rates)
    ranks: list[RankRecord] = []
    for rank in range(size):
        successor = (rank + 1) % size
        seconds = MEGABYTES / min(rates[rank], rates[successor])
        before, after = [2e6, 0.5], [2e6 + MEGABYTES * 1e6, 0.5 + seconds]
        ranks.append(
            record_of(
                [
                    {"kind": "start", "address": f"10.0.0.{rank}"},
                    {"kind": "links", "links": {f"10.0.0.{successor}": before}},
                    {"kind": "links", "links": {f"10.0.0.{successor}": after, "10.9.9.9": [1e9, 1.0]}},
                ]
            )
        )
    return ranks


@given(size=st.integers(3, 8), data=st.data())
def test_the_rank_behind_the_slow_link_is_named_in_a_ring_where_its_neighbours_are_as_slow(size, data):
    slow = data.draw(st.integers(0, size - 1))
    fast = data.draw(st.lists(st.floats(100, 130), min_size=size, max_size=size))
    rates = [10.0 if rank == slow else rate for rank, rate in enumerate(fast)]
    found = slow_link(ring(rates), STEPS, seconds_per_step=1.0, messages=1)
    if size == 3:  # the other two have one fast connection between them
        assert found and found.rank == slow
    assert found and (found.rank, found.cause) == (slow, "link")
    assert 0.4 < found.seconds < 0.5  # 5 s under way in 10 steps, less what a fast link would take


@given(st.lists(st.floats(100, 130), min_size=2, max_size=8))
def test_among_equals_nobody_is_named(rates: list[float]):
    assert slow_link(ring(rates), STEPS, seconds_per_step=0.1, messages=1) is None


def test_between_two_nobody_can_say_whose_end_it_is():
    assert slow_link(ring([10.0, 100.0]), STEPS, seconds_per_step=0.1, messages=1) is None


def test_a_slow_link_that_costs_next_to_nothing_is_not_worth_a_word():
    assert slow_link(ring([10.0, 100.0, 100.0]), STEPS, seconds_per_step=60.0, messages=1) is None


def trips(*seconds: float | None) -> list[RankRecord]:
    return [record_of([{"kind": "round-trip", "round_trip": value}]) for value in seconds]


def test_a_rank_that_answers_late_both_ways_is_named():
    late = slow_link(trips(0.001, 0.201, 0.201, 0.001), STEPS, seconds_per_step=1.0, messages=4)
    assert late == StragglerFound(rank=2, late_steps=STEPS, steps=STEPS, seconds=0.4, cause="link")
    assert sentence(late) == "rank 2 is behind a slow link, costing 400 ms a step; cause: link"
    assert slow_link(trips(0.201, 0.001, 0.201), STEPS, seconds_per_step=1.0, messages=4).rank == 0
    assert slow_link(trips(0.001, 0.201, 0.001, 0.001), STEPS, seconds_per_step=1.0, messages=4) is None
    assert slow_link(trips(None, None), STEPS, seconds_per_step=1.0, messages=4) is None
