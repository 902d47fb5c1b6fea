"""Real processes that fail, hang, are killed and interrupted: what is recorded, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gradsync import config as configs
from gradsync import launch
from gradsync.config import RunConfig
from gradsync.library.runs.check import resolved
from gradsync.record import log_file, rank_file, read_rank, read_rows
from started import Started, alive, wait_until


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    run = Started(tmp_path)
    yield run
    run.end()


@pytest.mark.alone
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker_ends_all_within_5_seconds_and_is_named(started: Started, rank: int):
    os.kill(started.pids[rank], signal.SIGKILL)
    wait_until(lambda: not any(alive(pid) for pid in started.pids), 5)
    _, errors = started.process.communicate(timeout=30)
    assert started.process.returncode == 1
    error = started.run().summary.error
    assert started.run().status == "failed"
    assert error.rank == rank
    assert "SIGKILL" in error.message
    assert f"failed on rank {rank}: ProcessDied: the process was killed by SIGKILL" in errors
    assert "memory" not in errors.lower(), "the kernel has not said so"
    assert started.run().out_of_memory is False
    assert "Traceback" not in errors


@pytest.mark.alone
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_no_process_and_a_readable_record(
    started: Started, number: signal.Signals, code: int
):
    started.process.send_signal(number)
    started.process.communicate(timeout=30)
    assert started.process.returncode == code
    assert not any(alive(pid) for pid in started.pids)
    summary = started.run().summary
    assert summary.status == "failed"
    assert summary.error.type == "Interrupted"
    assert number.name in summary.error.message
    assert summary.steps >= 2


@pytest.mark.alone
def test_workers_do_not_outlive_a_launcher_that_is_killed_outright(started: Started):
    started.process.kill()
    started.process.communicate(timeout=10)
    wait_until(lambda: not any(alive(pid) for pid in started.pids), 5)
    assert started.run().status == "unfinished"


def test_two_runs_at_once_do_not_collide(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "gradsync.cli",
        "train",
        "--model",
        "logistic",
        "--workers",
        "2",
        "--steps",
        "5",
    ]
    command += ["--strategy", "all-reduce", "--out", str(tmp_path), "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(2)]
    summaries = [json.loads(process.communicate(timeout=100)[0]) for process in both]
    assert [summary["status"] for summary in summaries] == ["completed", "completed"]
    assert summaries[0]["folder"] != summaries[1]["folder"]
    assert summaries[0]["ranks"][0]["parameters_sha256"] == summaries[1]["ranks"][0]["parameters_sha256"]


def test_a_failing_rank_is_recorded_with_its_exception_and_last_lines(tmp_path: Path, train):
    (tmp_path / "own.py").write_text(
        "import os, torch\n"
        "class Breaks(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.linear = torch.nn.Linear(3 * 32 * 32, 10)\n"
        "        self.calls = 0\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        print('call', self.calls, flush=True)\n"
        "        if self.calls == 3 and os.environ['RANK'] == '1':\n"
        "            raise OSError('the disk is full')\n"
        "        return self.linear(x.flatten(1))\n"
        "def build():\n"
        "    return Breaks()\n"
    )
    run = train(model=f"{tmp_path}/own.py:build", strategy="all-reduce", workers=2)
    error = run.summary.error
    assert (error.rank, error.type, error.message) == (1, "OSError", "the disk is full")
    assert "in forward" in error.traceback
    assert "call 3" in error.log
    assert run.summary.steps >= 2


@pytest.mark.parametrize("workers", [1, 2])
def test_a_loss_that_is_not_a_number_stops_the_run_with_step_and_rank(train, workers: int):
    run = train(model="logistic", workers=workers, batch_size=64, lr=1e38, steps=30)
    assert run.status == "failed"
    assert run.summary.error.type == "LossNotFinite"
    assert "at step" in run.summary.error.message
    assert f"on rank {run.summary.error.rank}" in run.summary.error.message
    assert run.summary.steps < 30


def test_keep_going_trains_on_without_a_number(train):
    run = train(model="logistic", workers=1, lr=1e38, steps=30, keep_going=True)
    assert run.status == "completed"
    assert run.summary.steps == 30
    assert run.summary.train_loss == [None]


def test_ranks_use_the_threads_of_the_summary_whatever_their_host_would_give_them(tmp_path: Path):
    """Resolved again in a rank, two workers would get another number."""
    (tmp_path / "own.py").write_text(
        "import torch\n"
        "def build():\n"
        "    print('threads', torch.get_num_threads(), flush=True)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))\n"
    )
    asked = RunConfig(model=f"{tmp_path}/own.py:build", workers=2, steps=1, eval=False, out=str(tmp_path / "runs"))
    found = resolved(asked)
    run = launch.run(replace(found, threads=found.threads + 2))
    assert run.status == "completed", run.error
    assert run.asked.threads is None
    assert run.summary.threads == run.resolved.threads == found.threads + 2
    for rank in range(2):
        assert read_rank(rank_file(run.folder, rank)).start["threads"] == run.summary.threads
        assert log_file(run.folder, rank, "out").read_text() == f"threads {run.summary.threads}\n"


def test_a_finished_run_can_be_run_again_from_its_config(train, tmp_path: Path):
    first = train(model="logistic", strategy="ddp", workers=2, steps=6, options={"bucket-mb": "1"})
    again = train(**configs.load(first.folder / "config.json").to_dict())
    assert first.folder != again.folder
    assert again.summary.ranks[0].parameters_sha256 == first.summary.ranks[0].parameters_sha256


@pytest.mark.parametrize(("model", "precision"), [("mnist-cnn", "fp32"), ("resnet18", "bf16")])
def test_training_lowers_the_loss(train, model: str, precision: str):
    epochs, samples = (5, 160) if model == "mnist-cnn" else (2, 64)
    settings = {"optimizer": "adam", "batch_size": 32 if samples == 160 else 16, "test_samples": 20}
    run = train(model=model, precision=precision, workers=2, epochs=epochs, train_samples=samples, **settings)
    losses = run.summary.train_loss
    assert run.status == "completed"
    assert losses[-1] < losses[0]
    assert len(run.summary.epoch_seconds) == len(losses)


TURNS = """
from gradsync.strategies.all_reduce import AllReduce

class FailsAtTheEnd(AllReduce):
    steps = 0

    def step(self):
        super().step()
        self.steps += 1
        if self.steps == 3 and self.comm.rank == 0:
            raise RuntimeError("after the last message")
"""


def test_runs_in_turn_survive_one_that_fails_when_other_ranks_have_gone_on(tmp_path: Path):
    """Unmeasured runs end without a message: the other rank is in the next run when this one fails."""
    (tmp_path / "strategies").mkdir()
    own = tmp_path / "strategies" / "turns.py"
    own.write_text(TURNS)
    base = {"model": "logistic", "workers": 2, "steps": 3, "threads": 1, "eval": False, "measure": False}
    names = ["all-reduce", f"{own}:FailsAtTheEnd", "gather-scatter", "ddp"]
    configs = [RunConfig(**base, strategy=name, out=str(tmp_path / "runs")) for name in names]
    runs = launch.run_in_turn([resolved(config) for config in configs])
    assert [run.status for run in runs] == ["completed", "failed", "completed", "completed"]
    error = runs[1].summary.error
    assert (error.rank, error.message) == (0, "after the last message")
    for run in runs[2:]:
        kinds = [row["kind"] for row in read_rows(rank_file(run.folder, 1))]
        assert kinds == ["start", "step", "step", "step", "end"], "nothing is left of the first attempt"
