"""When a process ends: not to outlive the one that started it (Linux), and not in the middle of cleaning up."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None  # found now: after a fork is no time to look


def end_with_parent(number: signal.Signals) -> None:
    """The kernel sends this signal when the parent is gone."""
    if _PRCTL is not None:
        _PRCTL(SET_DEATH_SIGNAL, number)


@contextmanager
def signals_held() -> Iterator[None]:
    """A Ctrl-C, perhaps the second, must not come in between: it arrives when the block has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
