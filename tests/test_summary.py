from __future__ import annotations

import pytest

from gradsync.config import RunConfig
from gradsync.meter.ledger import PARTS
from gradsync.summary import summarize


def start(rank: int, steps_per_epoch: int) -> dict:
    return {
        "kind": "start",
        "rank": rank,
        "node": "a",
        "role": "worker",
        "world_size": 2,
        "parameters": 7,
        "steps_per_epoch": steps_per_epoch,
    }


def step(number: int, seconds: float, loss: float | None, epoch: int = 1, samples: int = 4) -> dict:
    row = {"kind": "step", "step": number, "epoch": epoch, "seconds": seconds}
    return row | {"loss": loss, "samples": samples}


def evaluation(whole: bool, correct: int, count: int) -> dict:
    return {
        "kind": "test",
        "step": 2,
        "epoch": 1,
        "whole": whole,
        "loss_sum": 2.0 * count,
        "correct": correct,
        "count": count,
    }


TWO = RunConfig(strategy="ddp", workers=2, batch_size=8).resolved()


def test_seconds_per_step_leaves_out_the_first_and_all_after_forty():
    rows = [
        start(0, 100),
        step(1, 99.0, 1.0),
        *[step(n, 0.5, 1.0) for n in range(2, 41)],
        step(41, 99.0, 1.0),
    ]
    summary = summarize(TWO, [rows, rows], None, 1.0)
    assert summary["seconds_per_step"] == pytest.approx(0.5)
    assert summary["samples_per_second"] == pytest.approx(16.0)
    assert summary["seconds_per_step_spread"] == pytest.approx(0.0)


def test_an_epoch_lasts_as_long_as_its_slowest_rank_and_counts_only_when_whole():
    fast = [start(0, 2), step(1, 1.0, 1.0), step(2, 1.0, 1.0), step(3, 1.0, 1.0, epoch=2)]
    slow = [start(1, 2), step(1, 1.0, 1.0), step(2, 3.0, 1.0), step(3, 1.0, 1.0, epoch=2)]
    assert summarize(TWO, [fast, slow], None, 1.0)["epoch_seconds"] == [4.0]


def test_train_loss_is_the_mean_over_samples_not_over_ranks():
    one = [start(0, 1), step(1, 1.0, 1.0, samples=3)]
    two = [start(1, 1), step(1, 1.0, 5.0, samples=1)]
    assert summarize(TWO, [one, two], None, 1.0)["train_loss"] == [2.0]


def test_a_loss_that_was_not_a_number_leaves_no_figure():
    rows = [start(0, 1), step(1, 1.0, None)]
    assert summarize(TWO, [rows, rows], None, 1.0)["train_loss"] == [None]


def test_shares_of_the_test_set_add_up():
    ranks = [[start(0, 1), evaluation(False, 3, 5)], [start(1, 1), evaluation(False, 4, 5)]]
    summary = summarize(TWO, ranks, None, 1.0)
    assert summary["test"] == {"loss": 2.0, "accuracy": 0.7, "correct": 7, "count": 10}
    assert [rank["test"] for rank in summary["ranks"]] == [None, None]


def test_ranks_that_differ_keep_their_own_test_and_rank_0_speaks_for_the_run():
    ranks = [[start(0, 1), evaluation(True, 3, 10)], [start(1, 1), evaluation(True, 4, 10)]]
    summary = summarize(TWO, ranks, None, 1.0)
    assert summary["test"]["correct"] == 3
    assert [rank["test"]["correct"] for rank in summary["ranks"]] == [3, 4]


def test_a_run_that_never_started_has_no_figures_but_a_record():
    summary = summarize(TWO, [[], []], {"rank": 1, "type": "E", "message": "m"}, 1.0)
    assert summary["status"] == "failed"
    assert summary["seconds_per_step"] is None
    assert summary["test"] is None


def test_the_parts_of_the_ledger_add_up_to_the_step_and_what_was_hidden_stands_beside_them():
    stamps = {"begin": 1.0, "first_collective": 0, "phases": [["forward", 0.0], ["backward", 0.2], ["drain", 0.7]]}
    stamps["collectives"] = [["all_reduce", "gradients", 8, 8, 0.4, 0.9, 1]]
    rows = [start(0, 2), step(2, 1.0, 1.0) | stamps]
    summary = summarize(TWO, [rows, rows], None, 1.0)
    for holder in (summary, *summary["ranks"]):
        assert list(holder["ledger"]) == list(PARTS)
        assert sum(holder["ledger"].values()) == pytest.approx(1.0)
        assert holder["hidden_comm"] == pytest.approx(0.3)


def test_samples_per_second_counts_the_samples_there_were():
    rows = [start(0, 2), step(1, 1.0, 1.0), step(2, 0.5, 1.0, samples=3), step(3, 0.5, 1.0, samples=3)]
    assert summarize(TWO, [rows, rows], None, 1.0)["samples_per_second"] == pytest.approx(12.0)
