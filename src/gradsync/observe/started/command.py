"""Run the command that is watched, as it would run without us: same terminal, signals, folder and exit code."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradsync.errors import InputError
from gradsync.parent import STOPS

LOOK_SECONDS = 1.0  # should a signal be missed


@dataclass(frozen=True)
class Ended:
    """How the command has ended."""

    code: int
    """Its exit code; negative: killed by that signal."""

    stopped_by: str | None
    """The signal that stopped it, or us."""

    @property
    def well(self) -> bool:
        return self.code == 0 and self.stopped_by is None


def run(words: Sequence[str], variables: Mapping[str, str]) -> Ended:
    """Run it in our own process group, so that it gets what the terminal sends: Ctrl-C, Ctrl-Z, a closed window.

    What is sent to our process alone is passed on to it.
    """
    heard = {*STOPS, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    try:
        child = start(words, variables, before)
        stopped_by = None
        while child.poll() is None:
            told = signal.sigtimedwait(heard, LOOK_SECONDS)
            if told is None or told.si_signo == signal.SIGCHLD:
                continue
            stopped_by = signal.Signals(told.si_signo).name
            if told.si_code <= 0:  # from a process: a terminal has told the whole group
                child.send_signal(told.si_signo)
        if child.returncode < 0 and -child.returncode in STOPS:
            stopped_by = signal.Signals(-child.returncode).name
        return Ended(child.returncode, stopped_by if child.returncode else None)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(
    words: Sequence[str], variables: Mapping[str, str], mask: set[int | signal.Signals]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            env={**os.environ, **variables},
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
        )
    except OSError as error:
        raise InputError(f"cannot run {words[0]}: {error.strerror}. HINT: the command comes after --.") from None


def end_alike(ended: Ended) -> int:
    """Our own exit code, or our own death by the signal that ended the command."""
    if ended.code >= 0:
        return ended.code
    if -ended.code in STOPS:
        signal.signal(-ended.code, signal.SIG_DFL)
        os.kill(os.getpid(), -ended.code)
    return 128 - ended.code
