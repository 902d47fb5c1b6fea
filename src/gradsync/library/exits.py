"""What ends a script: an exception that nobody catches, sys.exit or SIGTERM; and who is told before it does.

sys.exit and, for those who are to be told, sys.excepthook and the handler of SIGTERM are replaced while somebody
listens, and put back afterwards. Standard library only: a watched script imports this before anything else.
"""

from __future__ import annotations

import dis
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from types import FrameType, TracebackType
from typing import Any

Told = Callable[[BaseException], object]

_listeners: list[Told | None] = []
_undo: list[Callable[[], None]] = []  # of what is replaced while somebody listens
_undo_telling: list[Callable[[], None]] = []  # and while somebody is to be told


class Stopped(Exception):
    """A signal ended the script; the message is its name."""


class Exited(Exception):
    """The script ended itself, with an exit code other than 0."""

    def __init__(self, code: int, words: str = "") -> None:
        super().__init__(f"the script ended itself with exit code {code}{words}")
        self.code = code


def listen(told: Told | None = None) -> Callable[[], None]:
    """From now on note how the script ends, and call ``told`` before an exception or SIGTERM ends it.

    Returns the way to stop. Children that are forked do not listen.
    """
    if not _listeners:
        _script.begin()
        _undo.append(note_exits())
    if told is not None and not any(_listeners):
        _undo_telling.extend([tell_of_exceptions(), tell_of_sigterm()])
    _listeners.append(told)
    return functools.partial(stop, told)


def stop(told: Told | None) -> None:
    if told in _listeners:
        _listeners.remove(told)
    for needed, undo in ((any(_listeners), _undo_telling), (bool(_listeners), _undo)):
        while undo and not needed:
            undo.pop()()


def stop_all() -> None:
    for told in list(_listeners):
        stop(told)


os.register_at_fork(after_in_child=stop_all)


def tell(error: BaseException) -> None:
    """Whatever goes wrong with it, the script's own end matters more."""
    for told in list(filter(None, _listeners)):
        try:
            told(error)
        except Exception as problem:
            print(f"gradsync: the record has not been closed: {type(problem).__name__}: {problem}", file=sys.stderr)


# --- how the script ends ---


class Script:
    """What is known about its end."""

    frame: FrameType | None = None
    """The outermost one of the main thread."""

    exit: SystemExit | None = None
    """Of the last call of sys.exit. It may have been caught."""

    stale: BaseException | None = None
    """An exception that did not end it, as of a notebook's cell."""

    def begin(self) -> None:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
        self.frame, self.exit, self.stale = frame, None, last_exception()

    @property
    def returned(self) -> bool:
        """Whether its last instruction was a return: no exception has ended it."""
        if self.frame is None or self.frame.f_lasti < 0:
            return False
        return dis.opname[self.frame.f_code.co_code[self.frame.f_lasti]].startswith("RETURN")


_script = Script()


def last_exception() -> BaseException | None:
    return getattr(sys, "last_value", None)


def ended_by() -> BaseException | None:
    """What is ending the process, asked when it ends; None if it has done what it was to do.

    A process of multiprocessing hides its exception from exit handlers, but not from its own. The code of
    ``raise SystemExit(code)`` is known to nobody in the process: it counts as 0.
    """
    error = sys.exc_info()[1]
    if error is None and not _script.returned:
        error = last_exception()
        error = _script.exit if error is _script.stale else error
    return cause_of(error)


def cause_of(error: BaseException | None) -> BaseException | None:
    """What an exception that ends the script means. Behind sys.exit, as in torch.multiprocessing, may be another."""
    if isinstance(error, KeyboardInterrupt):
        return Stopped("SIGINT")
    if not isinstance(error, SystemExit):
        return error
    code = error.code
    number = (code & 0xFF) if isinstance(code, int) else int(code is not None)
    if not number:
        return None
    if error.__context__ is not None and not isinstance(error.__context__, SystemExit):
        return cause_of(error.__context__)
    return Exited(number, "" if isinstance(code, int) else f": {code}")


# --- what is replaced ---


def replace(place: Any, name: str, ours: Any) -> Callable[[], None]:
    """Return the way to put it back."""
    original = getattr(place, name)
    setattr(place, name, ours)
    return functools.partial(put_back, place, name, ours, original)


def put_back(place: Any, name: str, ours: Any, original: Any) -> None:
    """Unless somebody else has replaced it since."""
    if getattr(place, name) is ours:
        setattr(place, name, original)


def note_exits() -> Callable[[], None]:
    leave = sys.exit

    @functools.wraps(leave)
    def exit(*code: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            _script.exit, _script.stale = SystemExit(*code), last_exception()
            _script.exit.__context__ = sys.exc_info()[1]
        leave(*code)

    return replace(sys, "exit", exit)


def tell_of_exceptions() -> Callable[[], None]:
    show = sys.excepthook

    def tell_and_show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        tell(error)
        show(kind, error, trace)

    return replace(sys, "excepthook", tell_and_show)


def tell_of_sigterm() -> Callable[[], None]:
    """Unless the script has a handler of its own. Python handles signals in the main thread."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None
    signal.signal(signal.SIGTERM, heard)
    return heed_no_more


def heed_no_more() -> None:
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is heard:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def heard(number: int, _: Any) -> None:
    if undisturbed.depth:
        undisturbed.waiting = number
        return
    with undisturbed:
        tell(Stopped(signal.Signals(number).name))
        signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)  # the exit code stays that of the signal


class Undisturbed(ContextDecorator, threading.local):
    """A block, or a function, in which SIGTERM waits: no step is recorded by half, and no record closed by half."""

    depth = 0
    waiting: int | None = None

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if not self.depth and self.waiting is not None:
            number, self.waiting = self.waiting, None
            signal.raise_signal(number)


undisturbed = Undisturbed()
