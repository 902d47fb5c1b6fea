"""The view of each worker, chosen columns, and what is said of lost workers: from summaries, without processes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gradsync.errors import InputError
from gradsync.record import Run
from gradsync.report.columns import COLUMNS, choose
from gradsync.report.summary import failure_text, lost_texts, runs_table
from gradsync.report.workers import has_stale_gradients, workers_view


def worker(rank: int) -> dict[str, Any]:
    return {
        "rank": rank,
        "finish_seconds": 1.5 + rank,
        "steps": 10 - rank,
        "staleness": 0.5 * rank,
        "dropped": rank,
        "epochs": [{"epoch": epoch, "accuracy": 0.5 + epoch / 100} for epoch in range(1, 8)],
        "test": {"loss": 1.0, "accuracy": 0.5},
    }


def figures(**more: Any) -> dict[str, Any]:
    base = {
        "strategy": "ps-async",
        "options": {"max-staleness": "12"},
        "world_size": 2,
        "updates": 19,
        "ranks": [worker(0), worker(1)],
        "staleness": {"histogram": {"0": 12, "1": 6, "11": 1}, "mean": 0.9, "max": 11, "dropped": 1},
        "server_count": 1,
        "servers": [{"rank": 2}],
        "steps": 10,
        "steps_per_epoch": 10,
        "status": "completed",
        "lost": [],
        "transport": "gloo",
        "device": "cpu",
        "seconds_per_step": 0.2,
        "seconds_per_step_spread": 0.01,
        "samples_per_second": 50.0,
        "epoch_seconds": [2.0],
        "train_loss": [2.0, 1.0],
        "test": {"loss": 0.9, "accuracy": 0.61},
        "read_seconds": 0.25,
        "total_seconds": 8.0,
    }
    return base | more


def text(view: Any) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(view)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_each_worker_with_its_last_epochs_and_the_histogram():
    shown = text(workers_view(figures()))
    assert "ps-async (max-staleness 12), 2 workers: 19 updates of the parameters" in shown
    second = next(line for line in shown.splitlines() if line.startswith(" 1 "))
    assert second.split() == ["1", "2.50", "9", "0.50", "1", "53.00%", "54.00%", "55.00%", "56.00%", "57.00%"]
    bars = {line.split()[0]: line for line in shown.splitlines() if "▇" in line}
    assert list(bars) == ["0", "1", "11"]
    assert bars["0"].count("▇") == 2 * bars["1"].count("▇")
    assert bars["11"].endswith("▇ 1")
    assert "dropped 1" in shown


def test_runs_without_servers_have_no_such_view_and_waiting_ones_no_histogram():
    assert workers_view(figures(updates=None)) is None
    waiting = figures(staleness={"histogram": {"0": 20}, "mean": 0.0, "max": 0, "dropped": 0})
    assert not has_stale_gradients(waiting)
    assert "▇" not in text(workers_view(waiting))


def test_columns_are_chosen_by_name():
    run = Run(Path("runs/x"), {}, figures())
    names = ("workers", "servers", "updates", "staleness", "read", "step", "epoch", "test-loss", "accuracy", "total")
    shown = text(runs_table([run], columns=names))
    row = next(line for line in shown.splitlines() if line.startswith(" ps-async"))
    assert row.split()[3:] == ["2", "1", "19", "0.90", "0.25", "0.200", "±", "0.010", "2.0", "0.900", "61.00%", "8.0"]
    assert "read: until every rank had its part" in shown
    assert text(runs_table([run], columns=tuple(COLUMNS))).count("ps-async") == 1


def test_an_unknown_column_lists_them_all():
    with pytest.raises(InputError, match=r"unknown column 'acuracy'\. Did you mean accuracy\?.*staleness"):
        choose(("workers", "acuracy"))


def test_lost_workers_and_a_lost_server_are_told_apart():
    lost = [{"rank": 1, "steps": 4, "message": "the process was killed by SIGKILL"}]
    assert lost_texts(Run(Path("x"), {}, figures(lost=lost))) == [
        "x: worker 1 was lost after 4 steps (the process was killed by SIGKILL); the others went on."
    ]
    error = {"rank": 2, "type": "ProcessDied", "message": "gone", "traceback": "", "log": []}
    failed = figures(status="failed", error=error)
    assert failure_text(Run(Path("x"), {}, failed)) == "x: failed on rank 2, a parameter server: ProcessDied: gone"
