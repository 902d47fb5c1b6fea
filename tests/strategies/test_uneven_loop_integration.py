"""Ranks with different numbers of batches: what three processes come to, in every way, is what one computes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from gradsync.strategies import STRATEGIES
from uneven_loop import RIGHT, WORKERS

AGREEING = [
    name for name, kind in STRATEGIES.items() if name != "none" and not (kind.has_servers or kind.in_one_process)
]

Found = dict[str, Any]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """One start for all: every strategy in every way, as all ranks found it."""
    folder = tmp_path_factory.mktemp("found")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS)]
    command += [str(Path(__file__).parent.parent / "support" / "scripts" / "uneven_loop.py"), str(folder), *AGREEING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    first, *others = (json.loads((folder / f"{rank}.json").read_text()) for rank in range(WORKERS))
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
