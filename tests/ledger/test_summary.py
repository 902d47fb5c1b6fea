from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.ledger.parts import PARTS
from gradsync.ledger.summary import differs_later, figures_of, learned, summarize, summarized_again
from gradsync.record import RunSummary, read_run, record_of, summaries
from gradsync.record.summaries import Error, Later
from made_up import made_up, resolved


def start(rank: int, steps_per_epoch: int) -> dict:
    return {
        "kind": "start",
        "rank": rank,
        "node": "a",
        "role": "worker",
        "world_size": 2,
        "backend": "gloo",
        "device": "cpu",
        "parameters": 7,
        "gradient_bytes": 24,
        "steps_per_epoch": steps_per_epoch,
    }


def step(number: int, seconds: float, loss: float | None, epoch: int = 1, samples: int = 4) -> dict:
    row = {"kind": "step", "step": number, "epoch": epoch, "seconds": seconds}
    return row | {"loss": loss, "samples": samples}


def evaluation(whole: bool, correct: int, count: int, epoch: int = 1, **more: int) -> dict:
    return {
        "kind": "test",
        "step": 2,
        "epoch": epoch,
        "whole": whole,
        "loss_sum": 2.0 * count,
        "correct": correct,
        "count": count,
        **more,
    }


TWO = RunConfig(strategy="ddp", workers=2, batch_size=8)


def summed_up(*ranks: list[dict], error: Error | None = None, window: str = "2:40") -> RunSummary:
    config = resolved(replace(TWO, window=window))
    return summarize(config, [record_of(rows) for rows in ranks], error, 1.0)


def test_seconds_per_step_leaves_out_the_first_and_all_after_forty():
    rows = [
        start(0, 100),
        step(1, 99.0, 1.0),
        *[step(n, 0.5, 1.0) for n in range(2, 41)],
        step(41, 99.0, 1.0),
    ]
    summary = summed_up(rows, rows)
    assert summary.seconds_per_step == pytest.approx(0.5)
    assert summary.samples_per_second == pytest.approx(16.0)
    assert summary.seconds_per_step_spread == pytest.approx(0.0)


def test_an_epoch_lasts_as_long_as_its_slowest_rank_and_counts_only_when_whole():
    fast = [start(0, 2), step(1, 1.0, 1.0), step(2, 1.0, 1.0), step(3, 1.0, 1.0, epoch=2)]
    slow = [start(1, 2), step(1, 1.0, 1.0), step(2, 3.0, 1.0), step(3, 1.0, 1.0, epoch=2)]
    assert summed_up(fast, slow).epoch_seconds == [4.0]


def test_train_loss_is_the_mean_over_samples_not_over_ranks():
    one = [start(0, 1), step(1, 1.0, 1.0, samples=3)]
    two = [start(1, 1), step(1, 1.0, 5.0, samples=1)]
    assert summed_up(one, two).train_loss == [2.0]


def test_a_loss_that_was_not_a_number_leaves_no_figure():
    rows = [start(0, 1), step(1, 1.0, None)]
    assert summed_up(rows, rows).train_loss == [None]


def test_shares_of_the_test_set_add_up():
    ranks = [[start(0, 1), evaluation(False, 3, 5)], [start(1, 1), evaluation(False, 4, 5)]]
    summary = summed_up(*ranks)
    assert summary.test == summaries.Test(loss=2.0, count=10, accuracy=0.7, correct=7, metrics={"accuracy": 0.7})
    assert [rank.test for rank in summary.ranks] == [None, None]


def test_ranks_that_differ_keep_their_own_test_and_rank_0_speaks_for_the_run():
    ranks = [[start(0, 1), evaluation(True, 3, 10)], [start(1, 1), evaluation(True, 4, 10)]]
    summary = summed_up(*ranks)
    assert summary.test.correct == 3
    assert [rank.test.correct for rank in summary.ranks] == [3, 4]


@pytest.mark.parametrize(
    ("ranks", "points"),
    [
        pytest.param(
            [
                [evaluation(True, 1, 10, update=10), evaluation(True, 2, 10, 2, update=20)],
                [evaluation(True, 3, 10, update=12), evaluation(True, 4, 10, 2, update=19)],
            ],
            [(1, 3), (2, 2)],
            id="the rank with the most updates after each epoch",
        ),
        pytest.param(
            [
                [evaluation(True, 1, 10, update=10), evaluation(True, 2, 10, 2, update=20)],
                [evaluation(True, 3, 10, update=25)],
            ],
            [(1, 3)],
            id="the last point has the most updates of all",
        ),
        pytest.param(
            [[evaluation(False, 1, 5), evaluation(False, 5, 5, 2)], [evaluation(False, 2, 5)]],
            [(1, 3)],
            id="the run ended before the other share was tested",
        ),
        pytest.param([[evaluation(False, 0, 0)], [evaluation(False, 0, 0)]], [], id="no sample was tested"),
    ],
)
def test_the_test_of_the_run_is_the_last_of_its_curve(ranks, points):
    records = [record_of(rows) for rows in ranks]
    assert [(test.epoch, test.correct) for test in learned.tests_of_run(records, ())] == points
    last = learned.test_of_run(records, ())
    assert (last.correct if last else None) == (points[-1][1] if points else None)


def test_a_lost_worker_does_not_speak_for_the_run():
    records = [record_of([evaluation(True, 3, 10, update=9)]), record_of([evaluation(True, 9, 10, update=99)])]
    assert [test.correct for test in learned.tests_of_run(records, {1})] == [3]


def test_an_epoch_without_loading_is_that_of_the_slowest_rank_and_has_to_be_whole():
    def stamped(number: int, seconds: float, loading: float, epoch: int = 1) -> dict:
        stamps = {"begin": float(number), "phases": [["data", 0.0], ["forward", loading]]}
        return step(number, seconds, 1.0, epoch) | stamps | {"first_collective": 0, "collectives": []}

    quick = [stamped(1, 1.0, 0.5), stamped(2, 1.0, 0.5), stamped(3, 9.0, 0.0, epoch=2)]
    slow = [stamped(1, 1.0, 0.25), stamped(2, 1.0, 0.25), stamped(3, 9.0, 0.0, epoch=2)]
    assert learned.epoch_without_data(map(record_of, (quick, slow)), 2) == pytest.approx(1.5)
    assert learned.epoch_without_data(map(record_of, (quick, slow)), 3) is None
    assert learned.epoch_without_data(map(record_of, (quick, [step(1, 1.0, 1.0), step(2, 1.0, 1.0)])), 2) is None
    assert learned.epoch_without_data([], 2) is None


def test_a_run_that_never_started_has_no_figures_but_a_record():
    error = Error(rank=1, type="E", message="m", traceback="", log=[])
    summary = summed_up([], [], error=error)
    assert summary.status == "failed"
    assert summary.seconds_per_step is None
    assert summary.test is None


def test_the_parts_of_the_ledger_add_up_to_the_step_and_what_was_hidden_stands_beside_them():
    stamps = {"begin": 1.0, "first_collective": 0, "phases": [["forward", 0.0], ["backward", 0.2], ["drain", 0.7]]}
    stamps["collectives"] = [["all_reduce", "gradients", 8, 8, 0.4, 0.9, 1]]
    rows = [start(0, 2), step(2, 1.0, 1.0) | stamps]
    summary = summed_up(rows, rows)
    for holder in (summary, *summary.ranks):
        assert list(holder.ledger) == list(PARTS)
        assert sum(holder.ledger.values()) == pytest.approx(1.0)
        assert holder.hidden_comm == pytest.approx(0.3)


def test_samples_per_second_counts_the_samples_there_were():
    rows = [start(0, 2), step(1, 1.0, 1.0), step(2, 0.5, 1.0, samples=3), step(3, 0.5, 1.0, samples=3)]
    assert summed_up(rows, rows).samples_per_second == pytest.approx(12.0)


@pytest.mark.parametrize(
    ("window", "used", "seconds", "later"),
    [
        ("2:40", (2, 40), 0.5, Later(steps=20, seconds_per_step=0.7, seconds_per_step_spread=pytest.approx(0.0))),
        ("41:50", (41, 50), 0.7, Later(steps=10, seconds_per_step=0.7, seconds_per_step_spread=pytest.approx(0.0))),
        ("all", (2, 60), (39 * 0.5 + 20 * 0.7) / 59, None),
        ("last:20", (41, 60), 0.7, None),
        ("100:200", (None, None), None, None),
    ],
)
def test_the_window_says_which_steps_are_timed_and_what_came_after_stands_beside_it(window, used, seconds, later):
    rows = [start(0, 100), step(1, 99.0, 1.0), *(step(n, 0.5 if n <= 40 else 0.7, 1.0) for n in range(2, 61))]
    summary = summed_up(rows, rows, window=window)
    assert (summary.window, summary.window_first, summary.window_last) == (window, *used)
    assert summary.seconds_per_step == (None if seconds is None else pytest.approx(seconds))
    assert summary.later == later
    assert summary.timed_steps == (used[1] - used[0] + 1 if seconds else 0)


@pytest.mark.parametrize(
    ("later", "count", "differs"), [(0.7, 20, True), (0.3, 20, True), (0.51, 20, False), (0.7, 4, False)]
)
def test_later_steps_are_worth_a_word_if_they_differ_by_more_than_the_spread(later: float, count: int, differs: bool):
    timed = [step(n, 0.45 if n % 2 else 0.55, 1.0) for n in range(1, 41)]
    rows = [start(0, 100), *timed, *(step(n, later, 1.0) for n in range(41, 41 + count))]
    assert differs_later(summed_up(rows, rows)) == differs


def test_a_run_is_summed_up_again_for_another_window_from_its_rows(tmp_path: Path):
    run = made_up(tmp_path, replace(TWO, model="logistic", steps=60), wire=0.05, later=2.0)
    before = (run.folder / "summary.json").read_bytes()
    again = summarized_again(run, "last:20").summary
    assert run.summary and again
    assert again.seconds_per_step == pytest.approx(2 * run.summary.seconds_per_step)
    assert (again.window, again.window_first, again.window_last, again.later) == ("last:20", 41, 60, None)
    for holder in (again, *again.ranks):
        assert sum(holder.ledger.values()) == pytest.approx(again.seconds_per_step)
    assert differs_later(run.summary) and not differs_later(again)
    unchanged = summarized_again(summarized_again(run, "last:20"), "2:40").summary
    assert unchanged == run.summary
    assert (run.folder / "summary.json").read_bytes() == before
    with pytest.raises(InputError, match="never timed"):
        summarized_again(run, "1:5")


def test_an_unfinished_run_has_the_figures_of_what_it_has_written(tmp_path: Path):
    run = made_up(tmp_path, replace(TWO, model="logistic", steps=60), wire=0.05, later=2.0)
    (run.folder / "summary.json").unlink()
    unfinished = read_run(run.folder)
    assert unfinished.summary is None
    so_far = figures_of(unfinished)
    assert (so_far.steps, so_far.seconds_per_step) == (60, run.summary.seconds_per_step)
    other = summarized_again(unfinished, "last:20")
    assert other.summary is None, "still unfinished"
    assert figures_of(other).seconds_per_step == pytest.approx(2 * so_far.seconds_per_step)
    assert figures_of(run) is run.summary


def test_the_end_of_a_rank_on_another_host_is_told_on_the_clock_of_rank_0():
    def rank(kernel: str, offset: float) -> list[dict]:
        clock = {"kind": "clock", "time": 0.0, "offset": offset, "bound": 0.001}
        measured = {"begin": 100.0 + offset, "first_collective": 0, "payload": {}}
        return [start(0, 2) | {"kernel": kernel, "setup_payload": []}, clock, step(1, 2.0, 1.0) | measured]

    summary = summed_up(rank("a", 0.0), rank("b", 5000.0))
    assert [each.finish_seconds for each in summary.ranks] == pytest.approx([2.0, 2.0])
