"""Gradients clipped in a user's own loop, in two processes: right, as documented, or refused; not silently wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradsync.strategies import STRATEGIES
from own_loop import TOUCHES, clip, clipped_by_each, trained

AGREEING = [
    name for name, kind in STRATEGIES.items() if name != "none" and not (kind.has_servers or kind.in_one_process)
]
OWN_BEFORE_STEP = [name for name in AGREEING if name not in ("bucketed", "ddp")]
NOTHING = TOUCHES["not at all"]
WORKERS = 2

Found = dict[str, Any]


@pytest.fixture(scope="module")
def found() -> Found:
    """One start for all: every strategy in every way, as both ranks found it."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS)]
    command += [str(Path(__file__).parent.parent / "support" / "own_loop.py"), *AGREEING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    decoder, text, ranks = json.JSONDecoder(), done.stdout.strip(), []
    while text:  # two processes print at once: their lines may share one
        one, end = decoder.raw_decode(text)
        ranks.append(one)
        text = text[end:].lstrip()
    first, second = ranks
    assert first == second
    return first


def close(numbers: list[float]) -> object:
    return pytest.approx(numbers, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("strategy", AGREEING)
def test_untouched_or_clipped_in_a_hook_of_the_optimizer_two_compute_what_one_does(found: Found, strategy: str):
    clipped = trained("local", NOTHING, in_hook=clip)
    assert clipped == trained("local", clip)
    assert found[f"{strategy} in a hook"] == close(clipped)
    assert found[f"{strategy} not at all"] == close(trained("local", NOTHING))
    assert clipped != close(trained("local", NOTHING)), "nothing was clipped, so nothing was tested"


def test_ddp_can_be_read_and_clipped_before_the_step(found: Found):
    assert found["ddp clipped"] == close(trained("local", clip))
    assert found["ddp read"] == found["ddp not at all"]


@pytest.mark.parametrize("strategy", OWN_BEFORE_STEP)
def test_before_the_step_the_gradients_of_the_others_are_each_workers_own(found: Found, strategy: str):
    """docs/library.md says so: what comes of clipping there is not what one process does."""
    assert found[f"{strategy} clipped"] == close(clipped_by_each(WORKERS))
    assert found[f"{strategy} clipped"] != close(trained("local", clip))
    assert found[f"{strategy} read"] == found[f"{strategy} not at all"]
    assert "got no gradient" in found[f"{strategy} cleared"]


@pytest.mark.parametrize("touch", ["clipped", "read"])
def test_bucketed_refuses_to_have_its_gradients_touched_before_the_step(found: Found, touch: str):
    assert "in flight" in found[f"bucketed {touch}"]
    assert "sync.step()" in found[f"bucketed {touch}"]
    assert "register_step_pre_hook" in found[f"bucketed {touch}"]


def test_bucketed_says_that_its_gradients_were_cleared(found: Found):
    assert "0.weight was cleared (zero_grad) between backward and sync.step()" in found["bucketed cleared"]


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
