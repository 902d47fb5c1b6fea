"""Users' own loops in several processes, in the ways they are written: right, or refused, but not silently wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import own_loop
from gradsync.strategies import STRATEGIES
from own_loop import OF_RANKS, RIGHT, WORKERS

AGREEING = [
    name for name, kind in STRATEGIES.items() if name != "none" and not (kind.has_servers or kind.in_one_process)
]
OWN_BEFORE_STEP = [name for name in AGREEING if STRATEGIES[name].after_backward == "own"]

Found = dict[str, Any]


IN_REPLICAS = [
    *("not at all", "clipped by norm", "clipped by value", "agreed, clipped, updated", "clipped in a hook"),
    *("accumulated", "scaled", "scheduled", "two models"),
]


def ranks_found(folder: Path, workers: int, how_much: str) -> Found:
    """One start for all: every strategy in every way, as all ranks found it."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
    script = Path(__file__).parent.parent / "support" / "scripts" / "own_loop.py"
    command += [str(script), str(folder), how_much, *AGREEING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    first, *others = (json.loads((folder / f"{rank}.json").read_text()) for rank in range(workers))
    same = [name for name in first if " refused " not in name]  # a sentence names the parameter of its own rank
    for other in others:
        assert first.keys() == other.keys()
        assert [name for name in same if first[name] != other[name]] == []
    return first


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return ranks_found(tmp_path_factory.mktemp("found"), WORKERS, "all")


@pytest.fixture(scope="module")
def found_by_three(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return ranks_found(tmp_path_factory.mktemp("three"), 3, "right")


@pytest.fixture(scope="module")
def alone() -> Found:
    """What one process computes."""
    return {name: way("local") for name, way in RIGHT.items()}


@pytest.fixture(scope="module")
def alone_for_three() -> Iterator[Found]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_loop, "WORKERS", 3)
        yield {name: RIGHT[name]("local") for name in OF_RANKS}


def close(numbers: list[float]) -> object:
    return pytest.approx(numbers, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("way", RIGHT)
@pytest.mark.parametrize("strategy", AGREEING)
def test_two_processes_compute_what_one_does(found: Found, alone: Found, strategy: str, way: str):
    assert found[f"{strategy} {way}"] == close(alone[way])


@pytest.mark.parametrize("way", OF_RANKS)
@pytest.mark.parametrize("strategy", AGREEING)
def test_three_processes_compute_what_one_does(
    found_by_three: Found, alone_for_three: Found, strategy: str, way: str
):
    assert found_by_three[f"{strategy} {way}"] == close(alone_for_three[way])


@pytest.mark.parametrize("way", IN_REPLICAS)
def test_replicas_in_one_process_compute_what_one_does(alone: Found, way: str):
    """ps-sync and ps-async, which have servers, cannot be attached."""
    assert RIGHT[way]("data-parallel") == close(alone[way])


def test_each_way_changes_what_is_computed(alone: Found):
    """Otherwise nothing would have been tested."""
    same = {"clipped by norm", "agreed, clipped, updated", "clipped in a hook", "compiled", "accumulated"}
    for one in RIGHT:
        for other in RIGHT:
            if one != other and not {one, other} <= same:
                assert alone[one] != close(alone[other]), (one, other)


@pytest.mark.parametrize("strategy", AGREEING)
def test_gradients_touched_before_the_workers_agree(found: Found, alone: Found, strategy: str):
    """Final with ddp; in flight with bucketed; each worker's own with the others, where only reading is harmless."""
    after_backward = STRATEGIES[strategy].after_backward
    clipped, read, cleared = (found[f"{strategy} {touch}"] for touch in ("clipped", "read", "cleared"))
    by_value = [found[f"{strategy} {touch}"] for touch in ("clipped through data", "replaced")]
    if after_backward == "final":
        assert clipped == close(alone["clipped by norm"])
        assert by_value == [close(alone["clipped by value"])] * 2
        assert read == found[f"{strategy} not at all"]
    elif after_backward == "own":
        assert "0.weight was changed between backward and sync.step()" in clipped
        assert "sync.step(clip_norm=1.0)" in clipped
        assert by_value == [clipped] * 2
        assert read == found[f"{strategy} not at all"]
    else:
        assert "in flight" in clipped and "sync.step(clip_norm=1.0)" in clipped
        assert "in flight" in read
        assert all("sync.step(clip_norm=1.0)" in sentence for sentence in by_value)
    assert "got no gradient" in cleared or "was cleared (zero_grad) between backward and sync.step()" in cleared


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("a closure", "closures are refused"),
        ("a closure by name", "closures are refused"),
        ("LBFGS", "LBFGS needs a closure"),
        ("unused", 'got no gradient in this step.*unused="zero"'),
        ("update alone", r"sync.update\(\) was called without sync.agree\(\)"),
        ("agree twice", r"sync.agree\(\) was called twice"),
        ("own count", "different learning rates.*sync.steps"),
        ("sync_bn", "rank 1 has run out of batches, but sync_bn"),
    ],
)
@pytest.mark.parametrize("strategy", AGREEING)
def test_what_cannot_be_right_is_refused(found: Found, strategy: str, what: str, message: str):
    sentence = found[f"{strategy} refused {what}"]
    assert isinstance(sentence, str) and re.search(message, sentence)


@pytest.mark.parametrize("strategy", AGREEING)
def test_attached_again_it_is_as_attached_afresh_and_detached_as_if_it_had_never_been(found: Found, strategy: str):
    turns = found[f"{strategy} attached again"]
    assert turns["first"][0] > 0
    assert turns["calls while bare"] == 0
    assert turns["bare"], "the bare model trains as one that was never attached"
    for turn in ("again", "by another"):
        assert turns[turn] == turns[f"{turn}, fresh"] == turns["first"]
        assert turns[f"{turn}, same"]


def test_a_run_with_ddp_prints_no_warning(train):
    """Nor does ``attach`` in the loop above, where every warning is an error."""
    done = train(model="logistic", strategy="ddp", workers=2, steps=2, batch_size=8, eval=False)
    assert done.status == "completed"
    printed = [path.read_text() for path in sorted(done.folder.glob("logs/rank-*.err"))]
    assert len(printed) == 2
    assert not any("Warning" in text for text in printed)
