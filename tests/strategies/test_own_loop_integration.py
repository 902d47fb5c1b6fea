"""Users' own loops in two processes, in the ways they are written: right, harmless or refused, not silently wrong."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from gradsync.strategies import STRATEGIES
from gradsync.testing.ways import PLAIN, WAYS
from in_ranks import AGREEING, Found, found_by_ranks
from own_loop import WORKERS, numbers

OWN_BEFORE_STEP = [name for name in AGREEING if STRATEGIES[name].after_backward == "own"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """One start for all: every strategy in every way, as both ranks found it."""
    first, second = found_by_ranks("own_loop.py", tmp_path_factory.mktemp("found"), WORKERS)
    assert first.keys() == second.keys()
    same = [name for name in first if " refused " not in name]  # a sentence names the parameter of its own rank
    assert [name for name in same if first[name] != second[name]] == []
    return first


@pytest.fixture(scope="module")
def alone() -> Found:
    """What one process computes."""
    return {name: numbers(way) for name, way in WAYS.items()}


def close(numbers: list[float]) -> object:
    return pytest.approx(numbers, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("strategy", AGREEING)
def test_two_processes_compute_what_one_does(found: Found, alone: Found, strategy: str, way: str):
    assert found[f"{strategy} {way}"] == close(alone[way])


def test_each_way_changes_what_is_computed(alone: Found):
    """Otherwise nothing would have been tested."""
    plain = {PLAIN, "gradient accumulation", "torch.compile"}
    by_norm = {f"clipping {how}" for how in ("by norm", "between agree and update", "in a hook of the optimizer")}
    for one, other in combinations(WAYS, 2):
        if not ({one, other} <= plain or {one, other} <= by_norm):
            assert alone[one] != close(alone[other]), (one, other)


@pytest.mark.parametrize("strategy", AGREEING)
def test_gradients_touched_before_the_workers_agree(found: Found, alone: Found, strategy: str):
    """Final with ddp; in flight with bucketed; each worker's own with the others, where only reading is harmless."""
    after_backward = STRATEGIES[strategy].after_backward
    clipped, read, cleared = (found[f"{strategy} {touch}"] for touch in ("clipped", "read", "cleared"))
    by_value = [found[f"{strategy} {touch}"] for touch in ("clipped through data", "replaced")]
    if after_backward == "final":
        assert clipped == close(alone["clipping by norm"])
        assert by_value == [close(alone["clipping by value"])] * 2
        assert read == found[f"{strategy} {PLAIN}"]
    elif after_backward == "own":
        assert "0.weight was changed between backward and sync.step()" in clipped
        assert "sync.step(clip_norm=1.0)" in clipped
        assert by_value == [clipped] * 2
        assert read == found[f"{strategy} {PLAIN}"]
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
