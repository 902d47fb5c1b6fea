"""When a process ends: not to outlive the one that started it (Linux), and not in the middle of cleaning up."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None  # found now: after a fork is no time to look

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What tells a command to stop: Ctrl-C, whoever ends it, and the end of its terminal."""


def end_with_parent(number: signal.Signals, parent: int | None = None) -> None:
    """The kernel sends this signal when the parent is gone, and we do if it went before the kernel was told.

    ``parent``: its process id, where the caller knows it from before the fork.
    """
    if _PRCTL is None:
        return
    parent = os.getppid() if parent is None else parent
    _PRCTL(SET_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def start_ticks(pid: int) -> int | None:
    """When a process started, in the kernel's ticks since boot; None: it is gone. Ids are used again, this is not."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def state(pid: int) -> str | None:
    """R, S, D, T (stopped), Z (ended, but nobody has asked for its exit code), ...; None: it is gone."""
    fields = stat_fields(pid)
    return fields[0] if fields else None


def stat_fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, from the third on: behind the name, which may hold anything."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


@contextmanager
def stops_raised() -> Iterator[None]:
    """Every stop is treated like Ctrl-C: clean up, then end. What somebody has told us to ignore (nohup) stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread alone
        return
    before = {number: signal.getsignal(number) for number in STOPS}
    for number, handler in before.items():
        if handler == signal.SIG_DFL:
            signal.signal(number, raise_stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_stop(number: int, _: Any) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def signals_held() -> Iterator[None]:
    """A Ctrl-C, perhaps the second, must not come in between: it arrives when the block has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
