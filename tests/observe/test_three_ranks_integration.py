"""Three ranks: the bits of a mean over a number of ranks that is no power of two, and steps made by a closure."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from gradsync.observe.messages import UNSTAMPED
from gradsync.record import Run, rank_records, read_run
from three_ranks import BATCH, CLOSURES, OF_LBFGS

SCRIPT = Path(__file__).parent.parent / "support" / "three_ranks.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict]:
    """The run, and what the ranks have found."""
    folder = tmp_path_factory.mktemp("three")
    done = subprocess.run([*TORCHRUN, str(SCRIPT)], cwd=folder, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "The script goes on" not in done.stderr
    run = read_run(folder / "runs" / "seen")
    assert isinstance(run, Run) and run.summary
    return run, json.loads(done.stdout)


def test_ddp_under_watch_has_the_bits_it_has_alone_in_all_the_ways_it_averages(seen):
    ways, alone, watched = (seen[1][name] for name in ("ways", "alone", "watched"))
    different = [way for way, before, now in zip(ways, alone, watched, strict=True) if before != now]
    assert different == []
    assert len(set(alone)) == 6  # it does round in three ways, with two amounts of data


def test_forward_and_backward_in_a_closure_are_no_part_of_the_optimizer(seen):
    """Lightning calls every optimizer in this way. The backward of a checkpoint inside begins and ends nothing."""
    in_step = ["forward", "backward", "drain", "optimizer", "other"]
    for record in rank_records(seen[0].folder, 3):
        first, *later = ([name for name, _ in row["phases"]] for row in record.steps[:CLOSURES])
        assert first[-5:] == in_step and "optimizer" not in first[:-5]
        assert [names[-7:] for names in later] == [["data", "optimizer", *in_step]] * (CLOSURES - 1)
        assert {row["samples"] for row in record.steps[:CLOSURES]} == {BATCH}


def test_a_batch_that_a_closure_evaluates_again_counts_once(seen):
    for row in rank_records(seen[0].folder, 3)[0].steps[CLOSURES : CLOSURES + OF_LBFGS]:
        names = [name for name, _ in row["phases"]]
        assert names.count("backward") == 3 and row["samples"] == BATCH


def test_a_step_is_cut_into_phases_that_follow_each_other(seen):
    for row in rank_records(seen[0].folder, 3)[0].steps:
        stamps = [offset for _, offset in row["phases"]]
        assert all(before <= after for before, after in pairwise([*stamps, row["seconds"]]))


def test_messages_without_stamps_are_told_once(seen):
    assert seen[0].summary.remarks == [UNSTAMPED]
