"""What every way of starting processes on this machine needs: their environment, logs, signals, and their end."""

from __future__ import annotations

import logging
import os
import platform
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.parent import end_with_parent
from gradsync.record import log_file, rank_file, read_rows

LOOPBACK = "127.0.0.1"
WORKER = "gradsync.worker"  # what every rank runs, with the run folders as arguments
SHUTDOWN_SECONDS = 2  # from asking the remaining ranks to end until they are killed
PATIENCE = SHUTDOWN_SECONDS + 1  # the same for who has started them, and asks them in turn
LAST_WORDS = 60
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def rank_logs(folder: Path) -> Any:
    """What ranks print goes to logs/rank-N.out and .err in the run folder: torch's LogsSpecs for that."""
    from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs

    class RankLogs(LogsSpecs):
        def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
            files = {
                stream: {local: str(log_file(folder, int(env["RANK"]), stream)) for local, env in envs.items()}
                for stream in ("out", "err")
            }
            return LogsDest(stdouts=files["out"], stderrs=files["err"], error_files=dict.fromkeys(envs, ""))

        @property
        def root_log_dir(self) -> str:
            return str(folder / "logs")

    (folder / "logs").mkdir(exist_ok=True)
    return RankLogs()


def handled_signals() -> str:
    """Those of ours that nobody has asked to ignore, as torch wants them."""
    return ",".join(item.name for item in SIGNALS if signal.getsignal(item) != signal.SIG_IGN)


def end_sessions(folder: Path, processes: int) -> None:
    """A rank killed outright leaves its loader processes behind; each rank leads a session of its own."""
    for rank in range(processes):
        for row in islice(read_rows(rank_file(folder, rank)), 1):
            if row["kind"] != "start":
                continue  # it failed before it had children
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(row["pid"], signal.SIGKILL)


def words_of(flag: str, text: str) -> list[str]:
    """The command a flag names, as words; it must be there."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{flag} {text}: {error}.") from None
    if not words or shutil.which(words[0]) is None:
        raise InputError(f"{flag} {text}: there is no such command.")
    return words


def run_starter(words: Sequence[str], log: Path, variables: dict[str, str], patience: float) -> int:
    """A program that starts the ranks, such as mpiexec or srun, until it ends; its exit code.

    ``variables``: what it inherits unless the user has set it; ``patience``: seconds it gets to end when we must.
    """
    with open(log, "wb") as output:
        starter = subprocess.Popen(
            words,
            env=variables | os.environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches us only, and we tell it
            preexec_fn=lambda: end_with_parent(signal.SIGTERM),
        )
        try:
            return starter.wait()
        finally:
            if starter.poll() is None:
                stop_all([starter], patience)


def stop_all(processes: Iterable[subprocess.Popen[bytes]], seconds: float = PATIENCE) -> None:
    """Ask them to end, and kill those that do not."""
    processes = list(processes)
    for process in processes:
        process.terminate()
    until = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def last_words(text: str) -> str:
    """The end of what a starter of processes has said."""
    return " ".join(text.split()[-LAST_WORDS:]) or "it does not say why"


def rank_environment(config: RunConfig) -> dict[str, str]:
    """What the ranks inherit, unless the user has set it."""
    variables = {
        # Otherwise every thread of a rank, not only the training one, starts a team as large as the machine.
        "OMP_NUM_THREADS": str(config.threads),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(SHUTDOWN_SECONDS),
    }
    library, version = platform.libc_ver()
    if library == "glibc" and tuple(map(int, version.split("."))) >= (2, 36):  # older ones refuse such a threshold
        # glibc gives large blocks back to the kernel at every step and faults them in again at the next: 6,000 to
        # 11,000 page faults and about 5 % of a vgg11 step at 32 samples (benchmarks/malloc.py). Let it keep them.
        variables |= {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
    return variables


@contextmanager
def ready_to_start(config: RunConfig, more: dict[str, str] | None = None) -> Iterator[None]:
    """Torch's pieces put handlers of their own in place and talk while they work; the record says it better."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    with restored_signals(), environment(rank_environment(config) | (more or {})):
        yield


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Set for the processes started in the block."""
    before = dict(os.environ)
    os.environ.update({name: value for name, value in variables.items() if name not in before})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def restored_signals() -> Iterator[None]:
    """The agent installs its own handlers and leaves them behind."""
    before = {item: signal.getsignal(item) for item in SIGNALS}
    try:
        yield
    finally:
        for item, handler in before.items():
            signal.signal(item, handler)
