"""Processes started by mpiexec."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch.outcome import Outcome, died
from gradsync.launch.processes import WORKER, end_sessions, last_words, rank_environment, stop
from gradsync.parent import end_with_parent
from gradsync.record import rank_files, read_rows

LOG = "mpiexec.log"


def launch(config: RunConfig, folders: Sequence[Path], module: str = WORKER) -> Outcome:
    """Start the ranks for these runs and wait. If one fails, mpiexec ends the others."""
    folder = folders[0]
    (folder / "logs").mkdir(exist_ok=True)
    log = folder / "logs" / LOG
    with open(log, "wb") as output:
        mpiexec = subprocess.Popen(
            command(config, folders, module),
            env=rank_environment(config) | LOOPBACK_ONLY | os.environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches us only, and we tell mpiexec
            preexec_fn=lambda: end_with_parent(signal.SIGTERM),
        )
        try:
            code = mpiexec.wait()
        finally:
            if mpiexec.poll() is None:
                stop(mpiexec)
    if code and not rank_files(folder):
        words = last_words(log.read_text(errors="replace"))
        return Outcome(failure=MpiexecFailed(f"mpiexec started nothing: {words}"))
    if code:
        end_sessions(folder, config.processes)
    told = any(row["kind"] == "error" for path in rank_files(folder).values() for row in read_rows(path))
    return outcome(code, log.read_text(errors="replace"), told)


class MpiexecFailed(Exception):
    """It has told why."""


class ProcessDied(Exception):
    """One of them: mpiexec does not say which."""


# The mpich wheel otherwise listens on every interface it finds.
LOOPBACK_ONLY = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


def command(config: RunConfig, folders: Sequence[Path], module: str = WORKER) -> list[str]:
    worker = [sys.executable, "-u", "-m", module, *map(str, folders)]
    return [*find_mpiexec(config.mpiexec), "-n", str(config.processes), *worker]


def find_mpiexec(asked: str | None) -> list[str]:
    """What was asked for, else the one that came with this python's MPI, else the one on the path."""
    if asked:
        words = shlex.split(asked)
        if not words or shutil.which(words[0]) is None:
            raise InputError(f"--mpiexec {asked}: there is no such command.")
        return words
    found = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if found is None:
        raise InputError("--launcher mpi needs mpiexec: pip install 'gradsync[mpi]', or name yours with --mpiexec.")
    return [found]


def outcome(code: int, log: str, told: bool) -> Outcome:
    """mpiexec has one exit code for all, and blames any process it ended. ``told``: a rank has written why."""
    if code == 0:
        return Outcome()
    if told:
        return Outcome(exit_codes={0: code})
    killed = re.search(r"EXIT STRING: .*\(signal (\d+)\)", log)
    return Outcome(
        failure=ProcessDied(
            died(-int(killed[1]) if killed else code).replace("the process", "one of the processes", 1)
        )
    )
