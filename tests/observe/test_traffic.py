"""The closed form of what a script calls, against what Gloo does, whoever is the root."""

from __future__ import annotations

import pytest

from gradsync.observe.traffic import closed_form

ALL = ("all_reduce", "reduce", "broadcast", "gather", "scatter", "all_gather", "reduce_scatter", "all_to_all")


@pytest.mark.parametrize("size", [2, 3, 4, 7])
@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("operation", ALL)
def test_what_all_ranks_send_is_what_all_receive(operation: str, root: int, size: int):
    each = [closed_form(operation, rank, root, size, 1000.0) for rank in range(size)]
    assert sum(one.sent for one in each) == pytest.approx(sum(one.received for one in each))
    assert sum(one.sent for one in each) > 0


def test_the_root_has_the_most_to_do():
    assert closed_form("gather", 2, 2, 4, 10).received == 30
    assert closed_form("scatter", 2, 2, 4, 10).sent == 30
    assert closed_form("gather", 0, 2, 4, 10).sent == 10


def test_a_barrier_and_what_is_not_known_count_nothing():
    assert closed_form("barrier", 0, 0, 4, 0).sent == 0
    assert closed_form("in a subgroup", 0, 0, 4, 100).sent == 0
