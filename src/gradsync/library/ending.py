"""How the user's script ends: by itself, by an exception, or by a signal. Records are closed, and the group is left.

Whatever ends it, its results and its exit code stay what they would have been.
"""

from __future__ import annotations

import atexit
import gc
import signal
import sys
import threading
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Any, NoReturn
from weakref import WeakSet

from gradsync.library import uneven
from gradsync.library.recording import Stopped
from gradsync.library.sync import Sync
from gradsync.rank import world

_living: WeakSet[Sync] = WeakSet()
_recorded: list[Sync] = []  # until their records are closed, whether anything else refers to them or not
_joined = False


def living() -> list[Sync]:
    return list(_living)


def look_after(sync: Sync, joined: bool) -> None:
    """Close and detach it at the end of the script at the latest. ``joined``: the group is ours, to be left then."""
    global _joined
    _joined = _joined or joined
    _living.add(sync)
    if joined or sync.size > 1:
        leave_at_exit()
    if sync.is_recorded:
        _recorded.append(sync)
        leave_at_exit()
        close_on_failure()


@cache  # registered once, however often the group is joined
def leave_at_exit() -> None:
    atexit.register(leave)


@cache
def close_on_failure() -> None:
    """Have records closed before an exception or SIGTERM ends the script."""
    show = sys.excepthook

    def close_and_show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        close_all(error)
        show(kind, error, trace)

    sys.excepthook = close_and_show
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end_by_signal)


def end_by_signal(number: int, _: Any) -> NoReturn:
    close_all(Stopped(signal.Signals(number).name))
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)  # the exit code stays that of the signal
    raise SystemExit(128 + number)


def close_all(error: BaseException | None = None) -> None:
    while _recorded:
        with suppress(OSError):  # the disk is full: the script's own end matters more
            _recorded.pop(0).close_record(error)


def leave() -> None:
    """Leave the group at the end of the script. Strategies are detached first: DDP's reducers would keep it alive.

    A rank that is out of batches takes part in the steps of the others until they are, too, unless it has failed.
    The group's threads must not outlive Python: otherwise "terminate called without an active exception" aborts the
    process (2 of 80 bare scripts).
    """
    global _joined
    if not failed():
        with suppress(RuntimeError, ValueError):  # the others have failed, or the script has left its group
            uneven.wait_for_others()
    close_all(getattr(sys, "last_value", None))
    for sync in living():
        sync.detach()
    gc.collect()
    if _joined:
        world.leave()
    _joined = False


def failed() -> bool:
    """Whether an exception is about to end the script."""
    return getattr(sys, "last_value", None) is not None
