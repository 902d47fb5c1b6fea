"""Runs with parameter servers that lose a worker, a server, or are interrupted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from started import Started, alive, wait_until

STEPS = 150
SLOW = ["--steps", str(STEPS), "--inject", "rank=1,where=data,ms=20"]  # the one that will be killed
SERVER = 3  # the rank after the workers

Start = Callable[..., Started]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    begun: list[Started] = []

    def start(*args: str) -> Started:
        begun.append(Started(tmp_path, *args, workers=3, servers=1))
        return begun[-1]

    yield start
    for run in begun:
        run.end()


def test_an_asynchronous_run_goes_on_without_a_killed_worker_and_says_so(start: Start):
    run = start("--strategy", "ps-async", *SLOW)
    os.kill(run.pids[1], signal.SIGKILL)
    output, errors = run.process.communicate(timeout=60)
    assert run.process.returncode == 0, errors
    assert not any(alive(pid) for pid in run.pids)
    summary = run.run().summary
    assert summary.status == "completed"
    (lost,) = summary.lost
    assert lost.rank == 1
    assert 2 <= lost.steps < STEPS
    assert f"worker 1 was lost after {lost.steps} steps (the process was killed by SIGKILL" in output
    assert [rank.steps for rank in summary.ranks] == [STEPS, lost.steps, STEPS]
    assert 2 * STEPS < summary.updates <= 2 * STEPS + lost.steps + 1
    assert sum(summary.staleness.histogram.values()) == summary.updates


@pytest.mark.alone
def test_without_its_server_a_run_fails_within_5_seconds_with_a_sentence(start: Start):
    run = start("--strategy", "ps-async")
    os.kill(run.pids[SERVER], signal.SIGKILL)
    seconds = wait_until(lambda: run.process.poll() is not None, 20)
    _, errors = run.process.communicate(timeout=5)
    assert run.process.returncode == 1
    assert not any(alive(pid) for pid in run.pids)
    assert f"failed on rank {SERVER}, a parameter server: ProcessDied: the process was killed by SIGKILL" in errors
    assert seconds < 5


def test_a_synchronous_run_with_backup_workers_survives_a_lost_one(start: Start):
    run = start("--strategy", "ps-sync", "--options.aggregate", "2", *SLOW)
    os.kill(run.pids[1], signal.SIGKILL)
    _, errors = run.process.communicate(timeout=60)
    assert run.process.returncode == 0, errors
    summary = run.run().summary
    assert (summary.status, summary.updates) == ("completed", STEPS)
    assert [item.rank for item in summary.lost] == [1]
    assert summary.staleness.histogram == {"0": 2 * STEPS}


def test_a_synchronous_run_that_needs_all_fails_without_one(start: Start):
    run = start("--strategy", "ps-sync")
    os.kill(run.pids[1], signal.SIGKILL)
    _, errors = run.process.communicate(timeout=20)
    assert run.process.returncode == 1
    assert "failed on rank 1: ProcessDied" in errors
    assert not any(alive(pid) for pid in run.pids)


@pytest.mark.alone
def test_an_interrupted_run_leaves_no_process(start: Start):
    run = start("--strategy", "ps-async")
    run.process.send_signal(signal.SIGINT)
    run.process.communicate(timeout=30)
    assert run.process.returncode == 130
    assert not any(alive(pid) for pid in run.pids)
    assert run.run().stopped_by == "SIGINT"


def test_when_the_launcher_is_killed_outright_nobody_stays(start: Start):
    run = start("--strategy", "ps-async")
    run.process.kill()
    wait_until(lambda: not any(alive(pid) for pid in run.pids), 5)
    assert run.run().status == "unfinished"
