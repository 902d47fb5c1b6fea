"""The one error type for what a user can put right: a sentence, no traceback, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """What was wrong, what is allowed, what to do."""


def signal_name(stop: KeyboardInterrupt) -> str:
    """Which signal it stands for: Ctrl-C raises it bare, our own handlers say which."""
    return str(stop) or "SIGINT"


def unknown(what: str, name: str, known: Iterable[str], hint: str = "") -> InputError:
    """An unknown name lists the nearest first, then all that are known."""
    known = sorted(known)
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
    allowed = f" Known: {', '.join(known)}." if known else " There are none."
    return InputError(f"unknown {what} {name!r}.{meant}{allowed}{' ' + hint if hint else ''}")
