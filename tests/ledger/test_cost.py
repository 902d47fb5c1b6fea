"""Closed forms: what one rank sends, another receives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.ledger import cost
from gradsync.ledger.cost import Traffic


@pytest.mark.parametrize("operation", [cost.gather, cost.scatter, cost.broadcast])
@given(size=st.integers(1, 33))
def test_everything_sent_is_received_and_each_rank_gets_its_part_once(operation, size: int):
    ranks = [operation(rank, size, 10) for rank in range(size)]
    assert sum(item.sent for item in ranks) == sum(item.received for item in ranks) == 10 * (size - 1)


def test_the_figures_of_the_reports():
    assert cost.all_reduce(4, 100) == Traffic(150, 150)
    assert cost.gather(0, 4, 100) + cost.scatter(0, 4, 100) == Traffic(300, 300)
    assert cost.gather(2, 4, 100) + cost.scatter(2, 4, 100) == Traffic(100, 100)
    assert [cost.broadcast(rank, 4, 100).sent for rank in range(4)] == [200, 100, 0, 0]


@given(size=st.integers(2, 33))
def test_a_reduce_sends_what_it_receives(size: int):
    ranks = [cost.reduce(rank, size, 10) for rank in range(size)]
    assert sum(item.sent for item in ranks) == pytest.approx(sum(item.received for item in ranks))
