"""The one error type for what a user can put right: a sentence, no traceback, exit code 2. And what others mean."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

NOT_RECORDED = os.EX_IOERR
"""The exit code of a rank that could not even write down why it failed."""

# What the C library says when the machine has run out of something -> what that is, and what to do. Gloo, MPI and
# Python all hand on these words.
RAN_OUT = {
    "No space left on device": "the disk is full. HINT: make room, or choose another --out",
    "Disk quota exceeded": "the disk quota is used up. HINT: make room, or choose another --out",
    "Too many open files": "there are too few file descriptors. HINT: raise `ulimit -n`, or use fewer workers",
    "Address already in use": "the port is taken, or no port is free. HINT: see what holds them with `ss -tan`",
    "Cannot assign requested address": "no port is free. HINT: see what holds them with `ss -tan`, or wait a minute",
    "can't start new thread": "there are too many threads. HINT: raise `ulimit -u`, or use fewer workers",
    "Resource temporarily unavailable": "there are too many processes or threads. HINT: raise `ulimit -u`",
}


class InputError(ValueError):
    """What was wrong, what is allowed, what to do."""


def plainly(error: BaseException) -> str:
    """Its message; where the machine has run out of something, also of what, and what to do."""
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
    """Which signal it stands for: Ctrl-C raises it bare, our own handlers say which."""
    return str(stop) or "SIGINT"


def truncated(file: object, needed: int, found: int) -> InputError:
    """A data file that ends before what is to be read of it."""
    return InputError(
        f"{file} is truncated: {needed:,} bytes of it are needed, and it has {found:,}. "
        "HINT: gradsync data verify tells which files are whole; delete this one and get it again."
    )


def unknown(what: str, name: str, known: Iterable[str], hint: str = "") -> InputError:
    """An unknown name lists the nearest first, then all that are known."""
    known = sorted(known)
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
    allowed = f" Known: {', '.join(known)}." if known else " There are none."
    return InputError(f"unknown {what} {name!r}.{meant}{allowed}{' ' + hint if hint else ''}")
