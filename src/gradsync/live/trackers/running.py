"""The trackers of a run while it goes on: for each a process that follows the run folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE_SECONDS = 30.0  # after the end of the run; then what a tracker has not logged is missing there
OF_THE_SCRIPT = ("WANDB_SERVICE",)
"""Left out of the environment: the connection of the user's own script to its tracker, which ends with the script."""


class Trackers:
    """Of runs that are made one after another: ``begin`` for each of them, ``end`` after the last."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ending: list[tuple[str, subprocess.Popen[bytes]]] = []

    def begin(self, folder: Path, names: Sequence[str]) -> None:
        """The runs before this one have ended."""
        self._tell()
        self._ending = [(name, process) for name, process in self._ending if process.poll() is None]
        for name in dict.fromkeys(names):
            try:
                self._running[name] = started(folder, name)
            except OSError as error:
                print(f"gradsync: {name} cannot be started: {error}", file=sys.stderr)

    def end(self) -> None:
        """All runs have ended, and their summaries are written. Waits for the trackers, but not for ever."""
        self._tell()
        until = time.monotonic() + self._patience
        ending, self._ending = self._ending, []
        try:
            for name, process in ending:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, until - time.monotonic()))
                if process.poll() is None:
                    late = f"{name} was not done {self._patience:g} s after the end of the run"
                    print(f"gradsync: {late}: what it had not logged by then is missing there.", file=sys.stderr)
        finally:
            for _, process in ending:
                process.kill()
                process.wait()

    def _tell(self) -> None:
        for name, process in self._running.items():
            assert process.stdin
            with suppress(OSError):  # it has failed, and said so
                process.stdin.write(b"end\n")
                process.stdin.close()
            self._ending.append((name, process))
        self._running = {}


def started(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C is for the run, whose end the tracker then records."""
    command = [sys.executable, "-m", "gradsync.live.trackers", str(folder.absolute()), name]
    environment = {key: value for key, value in os.environ.items() if key not in OF_THE_SCRIPT}
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)


@contextmanager
def tracked(folder: Path, names: Sequence[str], patience: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Log the run in this folder while the block runs, which also writes its summary.json, if anything does.

    The folder may still be empty at the beginning, and the rows in it may all be there already.
    """
    trackers = Trackers(patience)
    trackers.begin(folder, names)
    try:
        yield
    finally:
        trackers.end()
