"""The collective benchmark with real processes. The ranks check the numbers that arrive, of every operation."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradsync.cli.arguments import parse
from gradsync.cli.main import dispatch
from gradsync.config.probe import OPERATIONS
from gradsync.record import rank_files, read_rows


def test_every_operation_over_gloo_and_mpi(cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    done = cli(
        *("probe", "--workers", "3", "--transport", "gloo,mpi", "--sizes", "100B,1MB"),
        *("--iterations", "4", "--csv", "beside.csv", "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert "mpi: all-gather, 14 of 14 points done" in done.stderr
    shown = json.loads(done.stdout)
    assert (shown["study"], shown["folder"]) == ("probe", "studies/probe")
    assert [(run["status"], run["world_size"], run["transports"]) for run in shown["runs"]] == [
        ("completed", 3, ["gloo"]),
        ("completed", 3, ["mpi"]),
    ]
    points = [point for run in shown["runs"] for point in run["points"]]
    assert [(item["transport"], item["operation"], item["bytes"]) for item in points] == [
        (transport, operation, count)
        for transport in ("gloo", "mpi")
        for operation in OPERATIONS
        for count in (96, 999_996)  # as many numbers of four bytes for each of three
    ]
    assert all(3 <= item["iterations"] <= 4 and item["spread_seconds"] > 0 for item in points)
    assert all(len(run["fits"]) == len(OPERATIONS) for run in shown["runs"])
    with open(tmp_path / "beside.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    bandwidths = pytest.approx([item["bus_bandwidth"] / 1e6 for item in points])
    assert [float(row["bus bandwidth (MB/s)"]) for row in rows] == bandwidths
    assert [float(row["time (ms)"]) for row in rows] == [item["seconds"] * 1e3 for item in points]
    for run in shown["runs"]:
        files = {path.name for path in (tmp_path / run["folder"]).iterdir()}
        assert {"config.json", "resolved.json", "probe.json", "rank-2.jsonl", "summary.json"} <= files
    assert (tmp_path / "studies/probe/report.html").exists() and list((tmp_path / "studies/probe/tables").iterdir())

    assert dispatch(parse(["show", str(tmp_path / "studies/probe")])) == 0
    assert "mpi: time of a collective" in capsys.readouterr().out


def test_an_interrupted_benchmark_keeps_what_it_has(tmp_path: Path):
    command = [sys.executable, "-m", "gradsync.cli", "probe", "--workers", "2", "--operations", "gather,scatter"]
    process = subprocess.Popen(
        [*command, "--sizes", "1KB,4MB", "--iterations", "100000", "--seconds", "600"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 60
        while len(started(tmp_path)) < 2:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait(timeout=10)
    assert process.returncode == 130
    assert "0 of 1 run are finished; the same command resumes" in errors
    (folder,) = (tmp_path / "studies/probe/runs").iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["error"]["signal"], summary["fits"]) == ("failed", "SIGINT", [])
    assert not any(Path(f"/proc/{row['pid']}").exists() for row in started(tmp_path))


def started(place: Path) -> list[dict[str, int]]:
    found = [path for folder in place.glob("studies/probe/runs/*") for path in rank_files(folder).values()]
    return [row for path in found for row in read_rows(path) if row["kind"] == "start"]
