"""What every launcher needs: the environment of processes, how they are tied to us, and how they are ended."""

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
from pathlib import Path
from typing import IO

from gradsync.config import Resolved
from gradsync.errors import InputError
from gradsync.parent import end_with_parent, start_ticks, stat_fields, state
from gradsync.record import rank_file, rows_so_far
from gradsync.record.rows import StartRow

WORKER, PROBER = "worker", "prober"  # programs of gradsync.rank, given the run folders as arguments
SHUTDOWN_SECONDS = 2  # from asking the remaining ranks to end until they are killed
PATIENCE = SHUTDOWN_SECONDS + 1  # the same for a launcher, which passes the request on to its ranks
POLL_SECONDS = 0.1
LAST_WORDS = 60

SIGNALS_BY_NAME = {signal.strsignal(item): int(item) for item in signal.Signals}
"""As srun and mpiexec name the signal that killed a rank."""


def rank_words(python: str, program: str, folders: Iterable[Path]) -> list[str]:
    """The command of a rank."""
    return [python, "-u", "-m", "gradsync.rank", program, *map(str, folders)]


def rank_environment(config: Resolved) -> dict[str, str]:
    """The variables the ranks inherit, unless the user has set them."""
    # Otherwise every thread of a rank, not only the training one, starts OpenMP threads for the whole machine.
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
        start_new_session=True,  # Ctrl-C reaches only us, and we pass it on
        preexec_fn=lambda: end_with_parent(at_our_end, us),
    )


def run_starter(
    words: Sequence[str],
    log: Path,
    variables: Mapping[str, str],
    patience: float,
    watch: Callable[[], int | None] = lambda: None,
) -> int:
    """Run a program that starts the ranks, such as mpiexec or srun, until it ends; return its exit code.

    ``variables``: what it inherits unless the user has set it; ``patience``: seconds it gets to end when asked to;
    ``watch`` is polled: if it returns an exit code, the program is ended and that code is returned.
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
    """Whether it has ended, without reaping it: until then, its process id still names its group."""
    return process.returncode is not None or (
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    )


def end_group(process: subprocess.Popen[bytes]) -> int:
    """Kill what is left of its group, such as loader processes of a rank that has ended; return its exit code."""
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
    """Ranks that were stopped (SIGSTOP) and not continued. Their kernel still answers their peers."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[int, float] = {}

    def overdue(self, pids: Mapping[int, int], now: float | None = None) -> list[int]:
        """The ranks that have been stopped for too long; ``pids``: rank -> process id."""
        now = time.monotonic() if now is None else now
        stopped = [rank for rank, pid in pids.items() if state(pid) == "T"]
        self._since = {rank: self._since.get(rank, now) for rank in stopped}
        return [rank for rank in stopped if now - self._since[rank] > self._patience]


def starts(folder: Path, processes: int) -> dict[int, StartRow]:
    """rank -> the start row of its record, for the ranks that have started."""
    rows = {rank: next(rows_so_far(rank_file(folder, rank)), None) for rank in range(processes)}
    return {rank: row for rank, row in rows.items() if row is not None and row["kind"] == "start"}


def pids_here(folder: Path, processes: int) -> dict[int, int]:
    """rank -> process id, of ranks on this machine. Ids are reused, so the start time must match too."""
    return {
        rank: row["pid"]
        for rank, row in starts(folder, processes).items()
        if row.get("start_ticks") and start_ticks(row["pid"]) == row["start_ticks"]
    }


def end_sessions(folder: Path, processes: int) -> None:
    """End what is left of the sessions of ranks that another program has started for us on this machine.

    Every rank leads a session of its own, and one killed outright leaves its loader processes behind. A process that
    began before the rank, or whose session has another leader by now, is not one of them.
    """
    started = starts(folder, processes).values()
    leaders = {row["pid"]: ticks for row in started if (ticks := row.get("start_ticks"))}
    for place in Path("/proc").glob("[0-9]*") if leaders else ():
        fields = stat_fields(int(place.name))
        session, began = (int(fields[3]), int(fields[19])) if fields else (0, 0)
        if session in leaders and began >= leaders[session] and start_ticks(session) in (None, leaders[session]):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(place.name), signal.SIGKILL)


def words_of(flag: str, text: str) -> list[str]:
    """The command given with a flag, split into words; it must exist."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{flag} {text}: {error}.") from None
    if not words or shutil.which(words[0]) is None:
        raise InputError(f"{flag} {text}: there is no such command.")
    return words


def last_words(text: str) -> str:
    """The end of a launcher's output."""
    return " ".join(text.split()[-LAST_WORDS:]) or "it does not say why"
