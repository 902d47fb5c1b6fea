"""Not to outlive the process that started this one, however that ends (Linux)."""

from __future__ import annotations

import ctypes
import signal
import sys

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None  # found now: after a fork is no time to look


def end_with_parent(number: signal.Signals) -> None:
    """The kernel sends this signal when the parent is gone."""
    if _PRCTL is not None:
        _PRCTL(SET_DEATH_SIGNAL, number)
