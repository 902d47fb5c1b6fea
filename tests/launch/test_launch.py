"""Whatever happens, a run ends with a summary."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from gradsync import launch
from gradsync.cli.command.train import exit_code
from gradsync.config import RunConfig
from gradsync.launch import local, processes
from gradsync.launch.finish import write_summary
from gradsync.launch.outcome import Outcome
from gradsync.launch.processes import StoppedRanks, end_sessions
from gradsync.parent import start_ticks
from gradsync.record import RankLog, log_file
from made_up import resolved, start_row


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (KeyboardInterrupt(), "Interrupted", 128 + signal.SIGINT),
        (KeyboardInterrupt("SIGTERM"), "Interrupted", 128 + signal.SIGTERM),
        (ConnectionError("no rendezvous"), "ConnectionError", 1),
    ],
)
def test_a_launcher_that_fails_or_is_stopped_leaves_a_record(
    train, monkeypatch: pytest.MonkeyPatch, error: BaseException, kind: str, code: int
):
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(local, "launch", fails)
    run = train(model="logistic", workers=2)
    assert run.status == "failed"
    assert run.summary.error.type == kind
    assert json.loads((run.folder / "summary.json").read_text()) == run.summary.to_dict()
    assert exit_code(run) == code


def test_a_signal_during_the_summary_arrives_after_it():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    arrived = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the point is where it is raised
        with launch.signals_held():
            signal.raise_signal(signal.SIGINT)
            arrived.append("whole")
        arrived.append("never")
    signal.signal(signal.SIGINT, before)
    assert arrived == ["whole"]


def test_what_the_user_has_set_is_left_as_it_is(train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The ranks see it, and the other settings beside it."""
    (tmp_path / "own.py").write_text(
        "import os, torch\n"
        "def build():\n"
        "    print('OMP', os.environ['OMP_NUM_THREADS'], os.environ['WORLD_SIZE'], flush=True)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))\n"
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    run = train(model=f"{tmp_path}/own.py:build", workers=2, steps=1, eval=False)
    assert run.status == "completed", run.summary.error
    assert log_file(run.folder, 1, "out").read_text().splitlines() == ["OMP 7 2"]


@pytest.mark.parametrize(
    ("outcome", "steps", "status"),
    [
        (Outcome(exit_codes={1: 9}), 2, "completed"),  # mpiexec, when all the work was done
        (Outcome(failure=OSError("srun: lost")), 2, "completed"),
        (Outcome(exit_codes={1: 9}), 1, "failed"),
        (Outcome(signal="SIGINT"), 2, "failed"),
    ],
)
def test_a_run_whose_ranks_have_all_ended_is_complete(tmp_path: Path, outcome: Outcome, steps: int, status: str):
    """``steps``: the ranks that have an end in the record."""
    config = resolved(RunConfig(model="logistic", workers=2, batch_size=4, out=str(tmp_path)))
    folder = launch.new_folder(config)
    for rank in range(2):
        log = RankLog(folder, rank)
        log.write(**start_row(rank=rank))
        if rank < steps:
            log.write("end", time=2.0)
        log.close()
    run, _ = write_summary(config, folder, outcome, 1.0, 3.0)
    assert run.status == status


def test_a_rank_that_is_stopped_for_too_long_is_found(monkeypatch: pytest.MonkeyPatch):
    states = {11: "T", 12: "S"}
    monkeypatch.setattr(processes, "state", states.get)
    stopped = StoppedRanks(patience=5)
    pids = {0: 11, 1: 12}
    assert stopped.overdue(pids, now=0) == [] and stopped.overdue(pids, now=4) == []
    assert stopped.overdue(pids, now=6) == [0]
    states[11] = "S"  # it goes on
    assert stopped.overdue(pids, now=7) == []
    states[11] = "T"
    assert stopped.overdue(pids, now=8) == []


def test_a_session_is_ended_only_if_the_rank_still_leads_it(tmp_path: Path):
    """A process id is used again: then the start of the process is not the one in the record."""
    sleepers = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2)]
    try:
        for rank, sleeper in enumerate(sleepers):
            ticks = start_ticks(sleeper.pid)
            assert ticks
            log = RankLog(tmp_path, rank)
            log.write(**start_row(rank=rank, pid=sleeper.pid, start_ticks=ticks - rank))
            log.close()
        end_sessions(tmp_path, 2)
        assert sleepers[0].wait(timeout=5) == -signal.SIGKILL
        assert sleepers[1].poll() is None
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
