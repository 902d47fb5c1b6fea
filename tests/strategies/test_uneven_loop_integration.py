"""Ranks with different numbers of batches: what three processes come to, in every way, is what one computes."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from in_ranks import AGREEING, Found, found_by_ranks
from uneven_loop import RIGHT, WORKERS


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """One start for all: every strategy in every way, as all ranks found it."""
    first, *others = found_by_ranks("uneven_loop.py", tmp_path_factory.mktemp("found"), WORKERS)
    right = [f"{strategy} {way}" for strategy in AGREEING for way in RIGHT]
    for other in others:
        assert [name for name in right if first[name] != other[name]] == []
    return first


@pytest.fixture(scope="module")
def alone() -> Found:
    """What one process computes."""
    return {name: way("local") for name, way in RIGHT.items()}


def close(numbers: list[float]) -> object:
    return pytest.approx(numbers, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("way", RIGHT)
@pytest.mark.parametrize("strategy", AGREEING)
def test_three_processes_compute_what_one_does(found: Found, alone: Found, strategy: str, way: str):
    assert found[f"{strategy} {way}"] == close(alone[way])


def test_each_way_changes_what_is_computed(alone: Found):
    """Otherwise nothing would have been tested."""
    for one, other in combinations(RIGHT, 2):
        assert alone[one] != close(alone[other]), (one, other)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("own count", "different learning rates.*sync.steps"),
        ("sync_bn", "rank 1 has run out of batches, but sync_bn"),
    ],
)
@pytest.mark.parametrize("strategy", AGREEING)
def test_what_cannot_be_right_is_refused(found: Found, strategy: str, what: str, message: str):
    sentence = found[f"{strategy} {what}"]
    assert isinstance(sentence, str) and re.search(message, sentence)
