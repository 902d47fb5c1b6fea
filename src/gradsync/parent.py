"""How a process ends: it does not outlive its parent (Linux), and is not interrupted while cleaning up."""

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
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None  # looked up now: it is not safe after a fork

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that stop a command: Ctrl-C, ``kill``, and the end of its terminal."""


def end_with_parent(number: signal.Signals, parent: int | None = None) -> None:
    """Have the kernel send this signal when the parent ends; if it has ended already, send the signal ourselves.

    ``parent``: its process id, where the caller knows it from before the fork.
    """
    if _PRCTL is None:
        return
    parent = os.getppid() if parent is None else parent
    _PRCTL(SET_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def start_ticks(pid: int) -> int | None:
    """When a process started, in the kernel's ticks since boot; None: it is gone. Ids are reused, this is not."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def state(pid: int) -> str | None:
    """R, S, D, T (stopped), Z (ended, but not reaped), ...; None: it is gone."""
    fields = stat_fields(pid)
    return fields[0] if fields else None


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on: those after the name, which may contain any character."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


@contextmanager
def stops_raised() -> Iterator[None]:
    """Treat every stop signal like Ctrl-C: clean up, then end. Signals that are ignored (nohup) stay ignored."""
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
    """A Ctrl-C, perhaps a second one, must not interrupt the block: it is delivered when the block has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
