"""Studies with real processes: killed and begun again, and until memory ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Cli
from gradsync.record import rank_files, read_rows
from gradsync.study.making.carry_out import runs_of
from root import needs_root

GRID = """
model = "logistic"
eval = false
threads = 1
[vary]
steps = [5, 6, 7, 3000]
"""


def ended(folder: Path) -> list[Path]:
    return [run for run in folder.glob("runs/*") if any(row["kind"] == "end" for row in rows_of(run))]


def rows_of(run: Path) -> list[dict]:
    return [row for path in rank_files(run).values() for row in read_rows(path)]


def test_a_killed_study_keeps_what_is_finished(tmp_path: Path, cli: Cli):
    """All four runs would have the same processes, and no summary was written yet when everything is killed."""
    (tmp_path / "grid.toml").write_text(GRID)
    command = [sys.executable, "-m", "gradsync.cli", "study", "grid.toml"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as started:
        assert started.stdout
        for line in started.stdout:
            if line.startswith("run 4 of 4"):
                break
        started.send_signal(signal.SIGKILL)
    folder = tmp_path / "studies" / "grid"
    finished = {path: (path / "rank-0.jsonl").stat().st_mtime_ns for path in ended(folder)}
    assert len(finished) == 3
    again = cli("study", "grid.toml", "--json")
    assert again.returncode == 0, again.stderr
    assert "3 of 4 runs are finished already" in again.stderr
    assert {path: (path / "rank-0.jsonl").stat().st_mtime_ns for path in finished} == finished
    shown = json.loads(again.stdout)
    page = (folder / "report.html").read_text()
    assert all(section["title"] in page for section in shown["sections"])
    (section,) = (section for section in shown["sections"] if not section["detail"])
    rows = section["exhibits"][0]["rows"]
    assert [row[0] for row in rows] == [5, 6, 7, 3000]
    assert [run["steps"] for run in shown["runs"]] == [5, 6, 7, 3000]
    assert all(run.status == "completed" for run in runs_of(folder))


@needs_root
def test_out_of_memory_is_the_limit_and_the_study_ends_normally(cli: Cli):
    found = cli(
        *("study", "batch", "--model", "mnist-cnn", "--steps", "2", "--train-samples", "8192", "--threads", "1"),
        *("--nodes", "1", "--memory", "600MB", "--batch-sizes", "16,2048,8192"),
    )
    if "controller" in found.stderr:
        pytest.skip(found.stderr)
    assert found.returncode == 0, found.stderr
    assert "Batches of 2048 did not fit into memory" in found.stdout
    assert "8192" not in found.stdout and "8,192" not in found.stdout


def test_ctrl_c_tells_how_to_go_on(tmp_path: Path):
    (tmp_path / "grid.toml").write_text(GRID)
    command = [sys.executable, "-m", "gradsync.cli", "study", "grid.toml"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as started:
        assert started.stdout and started.stderr
        for line in started.stdout:
            if line.startswith("run 4 of 4"):
                break
        os.kill(started.pid, signal.SIGINT)
        errors = started.stderr.read()
    assert started.returncode == 130
    assert "3 of 4 runs are finished; the same command resumes" in errors


def test_a_report_is_reproduced_from_the_command_to_the_page(cli: Cli, tmp_path: Path):
    asked = ("reproduce", "hpml-lab4", "--scale", "smoke", "--only", "Question 5", "--no-cluster")
    found = cli(*asked, "--json")
    assert found.returncode == 0, found.stderr
    shown = json.loads(found.stdout)
    claims, compared = (section for section in shown["sections"] if not section["detail"])
    ((text, verdict, *_),) = claims["exhibits"][0]["rows"]
    assert "shuffled anew" in text and verdict == "? undecided"  # made-up data decides nothing about accuracy
    table = compared["exhibits"][0]
    assert [row[0] for row in table["rows"]] == ["reshuffled", "same-order"]
    ours = [column["name"] for column in table["columns"]].index("ours")
    assert all(0 < row[ours] <= 100 for row in table["rows"])
    assert any("synthetic data instead of the real set" in note for note in table["notes"])
    assert "Question 5" in (tmp_path / shown["report"]).read_text()
    again = cli(*asked)
    assert "2 of 2 runs are finished already" in again.stdout + again.stderr
