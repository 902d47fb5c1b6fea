"""What every way of starting processes needs: their environment, what ties them to us, and their end."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.parent import end_with_parent, start_ticks, stat_fields, state
from gradsync.record import Row, rank_file, rows_so_far

WORKER, PROBER = "worker", "prober"  # programs of gradsync.rank, given the run folders as arguments
SHUTDOWN_SECONDS = 2  # from asking the remaining ranks to end until they are killed
PATIENCE = SHUTDOWN_SECONDS + 1  # the same for who has started them, and asks them in turn
POLL_SECONDS = 0.1
LAST_WORDS = 60


def rank_words(python: str, program: str, folders: Iterable[Path]) -> list[str]:
    """The command of a rank."""
    return [python, "-u", "-m", "gradsync.rank", program, *map(str, folders)]


def rank_environment(config: RunConfig) -> dict[str, str]:
    """What the ranks inherit, unless the user has set it."""
    # Otherwise every thread of a rank, not only the training one, starts a team as large as the machine.
    variables = {"OMP_NUM_THREADS": str(config.threads)}
    library, version = platform.libc_ver()
    if library == "glibc" and tuple(map(int, version.split("."))) >= (2, 36):  # older ones refuse such a threshold
        # glibc gives large blocks back to the kernel at every step and faults them in again at the next: 6,000 to
        # 11,000 page faults and about 5 % of a vgg11 step at 32 samples (benchmarks/malloc.py). Let it keep them.
        variables |= {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
    return variables


def start(
    words: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes],
    errors: IO[bytes] | int = subprocess.STDOUT,
    at_our_end: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """A process that does not outlive us: when we are killed outright, the kernel sends it ``at_our_end``."""
    us = os.getpid()
    return subprocess.Popen(
        words,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        start_new_session=True,  # Ctrl-C reaches us only, and we tell it
        preexec_fn=lambda: end_with_parent(at_our_end, us),
    )


def run_starter(
    words: Sequence[str],
    log: Path,
    variables: Mapping[str, str],
    patience: float,
    watch: Callable[[], int | None] = lambda: None,
) -> int:
    """A program that starts the ranks, such as mpiexec or srun, until it ends; its exit code.

    ``variables``: what it inherits unless the user has set it; ``patience``: seconds it gets to end when we must;
    ``watch`` is asked now and then, and ends it with the exit code it gives, if it gives one.
    """
    with open(log, "wb") as output:
        starter = start(words, {**variables, **os.environ}, output)
        try:
            while (code := starter.poll()) is None and (code := watch()) is None:
                time.sleep(POLL_SECONDS)
            return code
        finally:
            stop_all([starter], patience)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """It keeps its process id until it is waited for, so that its group can still be named by it."""
    return process.returncode is not None or (
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    )


def end_group(process: subprocess.Popen[bytes]) -> int:
    """Kill what is left of its group, such as loader processes of a rank that has ended; its own exit code."""
    if process.returncode is None:
        signal_group(process, signal.SIGKILL)
    return process.wait()


def stop_all(processes: Iterable[subprocess.Popen[bytes]], seconds: float = PATIENCE) -> None:
    """Ask them to end, and kill those that do not, each with its group."""
    processes = [process for process in processes if process.returncode is None]
    for process in processes:
        signal_group(process, signal.SIGTERM)
    until = time.monotonic() + seconds
    while not all(map(has_ended, processes)) and time.monotonic() < until:
        time.sleep(POLL_SECONDS / 5)
    for process in processes:
        end_group(process)


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class StoppedRanks:
    """Ranks that somebody has stopped (SIGSTOP) and not let go on. Their kernel still answers for them."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[int, float] = {}

    def look(self, pids: Mapping[int, int], now: float | None = None) -> list[int]:
        """The ranks that have been stopped for too long; ``pids``: rank -> process id."""
        now = time.monotonic() if now is None else now
        stopped = [rank for rank, pid in pids.items() if state(pid) == "T"]
        self._since = {rank: self._since.get(rank, now) for rank in stopped}
        return [rank for rank in stopped if now - self._since[rank] > self._patience]


def starts(folder: Path, processes: int) -> dict[int, Row]:
    """rank -> what it wrote when it had started, of those that have."""
    rows = {rank: next(islice(rows_so_far(rank_file(folder, rank)), 1), None) for rank in range(processes)}
    return {rank: row for rank, row in rows.items() if row is not None and row["kind"] == "start"}


def pids_here(folder: Path, processes: int) -> dict[int, int]:
    """rank -> process id, of ranks on this machine. An id may be somebody else's by now: its start must match."""
    return {
        rank: row["pid"]
        for rank, row in starts(folder, processes).items()
        if row.get("start_ticks") and start_ticks(row["pid"]) == row["start_ticks"]
    }


def end_sessions(folder: Path, processes: int) -> None:
    """Ranks that others have started for us on this machine lead sessions of their own: end what is left of these.

    A rank killed outright leaves its loader processes behind. Those of a session that has the same number, but began
    before the rank or has another leader, are somebody else's.
    """
    leaders = {row["pid"]: row["start_ticks"] for row in starts(folder, processes).values() if row.get("start_ticks")}
    for place in Path("/proc").glob("[0-9]*") if leaders else ():
        fields = stat_fields(int(place.name))
        session, began = (int(fields[3]), int(fields[19])) if fields else (0, 0)
        if session in leaders and began >= leaders[session] and start_ticks(session) in (None, leaders[session]):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(place.name), signal.SIGKILL)


def words_of(flag: str, text: str) -> list[str]:
    """The command a flag names, as words; it must be there."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{flag} {text}: {error}.") from None
    if not words or shutil.which(words[0]) is None:
        raise InputError(f"{flag} {text}: there is no such command.")
    return words


def last_words(text: str) -> str:
    """The end of what a starter of processes has said."""
    return " ".join(text.split()[-LAST_WORDS:]) or "it does not say why"
