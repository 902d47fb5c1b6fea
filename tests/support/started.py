"""A `gradsync train` in the background, to kill parts of."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gradsync.record import Run, rank_file, read_rows, read_run

LONG = ["--model", "logistic", "--batch-size", "6", "--steps", "1000000", "--no-eval"]


def pids(folder: Path) -> list[int]:
    rows = [next(iter(read_rows(path)), None) for path in sorted(folder.glob("rank-*.jsonl"))]
    return [row["pid"] for row in rows if row]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


def wait_until(condition: Callable[[], bool], seconds: float) -> float:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds, "waited in vain"
        time.sleep(0.02)
    return time.monotonic() - begin


def heed_signals() -> None:
    """A test run in the background of a shell, or by nohup, is told to ignore these, and would hand that on."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Started:
    """It has done a few steps on every worker."""

    def __init__(self, folder: Path, *more: str, workers: int = 2, servers: int = 0) -> None:
        words = [*LONG, "--workers", str(workers), "--out", str(folder), *more]
        command = [sys.executable, "-m", "gradsync.cli", "train", *words]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_signals,
        )
        try:
            wait_until(lambda: any(folder.glob("*/rank-*.jsonl")), 60)
            self.folder = next(folder.glob("*"))
            wait_until(lambda: all(self.steps(rank) >= 2 for rank in range(workers)), 60)
            self.pids = pids(self.folder)
            assert len(self.pids) == workers + servers
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Whatever the test found, its processes do not outlive it: ranks end with their launcher."""
        self.process.kill()
        self.process.wait(timeout=10)

    def steps(self, rank: int) -> int:
        return sum(row["kind"] == "step" for row in read_rows(rank_file(self.folder, rank)))

    def run(self) -> Run:
        return read_run(self.folder)
