"""However the ranks are started, it is one run: by mpiexec, and by two commands that join one folder."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gradsync.record import Run, read_run

SCRIPT = Path(__file__).parent.parent / "support" / "course" / "part3.py"
WATCH = [sys.executable, "-m", "gradsync.cli", "watch"]


def script(folder: Path, rank: str) -> list[str]:
    """DDP on two ranks, which meet in a file. ``rank``: as a shell would fill it in."""
    meet = (folder / "meet").as_uri()
    words = shlex.join([sys.executable, str(SCRIPT), "--num-nodes", "2", "--master-ip", meet])
    return ["sh", "-c", f"exec {words} --rank {rank}"]


def two_ranks(folder: Path) -> Run:
    run = read_run(folder)
    assert isinstance(run, Run) and run.summary
    assert (run.status, run.summary.strategy, run.summary.steps) == ("completed", "ddp", 12)
    assert len({rank.parameters_sha256 for rank in run.summary.ranks}) == 1 and len(run.summary.ranks) == 2
    for rank in run.summary.ranks:
        assert sum(rank.ledger.values()) == pytest.approx(rank.seconds_per_step, rel=0.02)
    return run


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="no MPI: pip install gradsync[mpi]")
def test_ranks_that_mpiexec_numbers(cli, tmp_path: Path):
    mpiexec = Path(sys.executable).with_name("mpiexec")
    done = cli("watch", "--name", "seen", "--", str(mpiexec), "-n", "2", *script(tmp_path, "$PMI_RANK"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("final parameters") == 2
    run = two_ranks(tmp_path / "runs" / "seen")
    assert run.summary and run.summary.nodes == 1 and run.summary.remarks == []


def test_two_commands_that_join_one_folder_make_one_run(tmp_path: Path):
    """As they would be typed on two nodes with a shared folder. The last to end shows the run."""
    running = [
        subprocess.Popen(
            [*WATCH, "--join", "together", "--", *script(tmp_path, str(rank))],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=100) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], said
    assert all("final parameters" in output for output, _ in said)
    two_ranks(tmp_path / "together")
    errors = [errors for _, errors in said]
    assert sum("the ledger of a step, rank by rank" in text for text in errors) == 1
    assert sum("so far: the last command to end finishes it" in text for text in errors) == 1
    late = subprocess.run(
        [*WATCH, "--join", "together", "--", "true"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert late.returncode == 2 and "has a run that is finished: choose another folder to --join" in late.stderr
