"""The error type for mistakes a user can correct: a sentence, no traceback, exit code 2. Hints for other errors."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from typing import Any

NOT_RECORDED = os.EX_IOERR
"""The exit code of a rank that could not even record why it failed."""

# The C library's message when a resource has run out -> which resource that is, and what to do. Gloo, MPI and
# Python all pass these messages on.
RAN_OUT = {
    "No space left on device": "the disk is full. HINT: make room, or choose another --out",
    "Disk quota exceeded": "the disk quota is used up. HINT: make room, or choose another --out",
    "Too many open files": "no file descriptors are left. HINT: raise `ulimit -n`, or use fewer workers",
    "Address already in use": "the port is taken, or no port is free. HINT: see what holds them with `ss -tan`",
    "Cannot assign requested address": "no port is free. HINT: see what holds them with `ss -tan`, or wait a minute",
    "can't start new thread": "there are too many threads. HINT: raise `ulimit -u`, or use fewer workers",
    "Resource temporarily unavailable": "there are too many processes or threads. HINT: raise `ulimit -u`",
}


class InputError(ValueError):
    """Its message says what was wrong, what is allowed and what to do."""


class RunFailed(RuntimeError):
    """A run that was started from Python has failed: a sentence says why, and ``run`` is what it has recorded."""

    def __init__(self, message: str, run: Any = None) -> None:
        super().__init__(message)
        self.run = run


def plainly(error: BaseException) -> str:
    """The message of an error; if a resource has run out, also which one, and what to do."""
    message = str(error)
    if isinstance(error, SystemExit):
        message = f"sys.exit({error})"
    elif isinstance(error, OSError) and error.filename and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    meant = ran_out(error)
    return f"{message.rstrip('.')}: {meant}" if meant else message


def ran_out(error: BaseException) -> str | None:
    return next((told for words, told in RAN_OUT.items() if words in str(error)), None)


def signal_name(stop: KeyboardInterrupt) -> str:
    """The signal it stands for: Ctrl-C raises it without an argument, our own handlers name the signal."""
    return str(stop) or "SIGINT"


def truncated(file: object, needed: int, found: int) -> InputError:
    """The error for a data file that is shorter than what must be read from it."""
    return InputError(
        f"{file} is truncated: {needed:,} bytes are needed, but it has {found:,}. "
        "HINT: `gradsync data verify` shows which files are intact; delete this one and get it again."
    )


def unknown(what: str, name: str, known: Iterable[str], hint: str = "") -> InputError:
    """The error for an unknown name: it lists the nearest names first, then all known ones."""
    known = sorted(known)
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
    allowed = f" Known: {', '.join(known)}." if known else " None exist."
    return InputError(f"unknown {what} {name!r}.{meant}{allowed}{' ' + hint if hint else ''}")
