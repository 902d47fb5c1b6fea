"""What is noted of the end of a script, and who is told: in processes of their own, without torch."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

BEGIN = """
import atexit, os, signal, sys
from gradsync.library.exits import ended_by, listen, undisturbed
def said(error): return error and f"{type(error).__name__}: {error}"
atexit.register(lambda: print("at exit", said(ended_by()), flush=True))
before = [sys.exit, sys.excepthook, signal.getsignal(signal.SIGTERM)]
stop = listen(lambda error: print("told", said(error), flush=True))
def now(): return [sys.exit, sys.excepthook, signal.getsignal(signal.SIGTERM)]
"""
EXIT = "Exited: the script ended itself with exit code"


def end(script: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("script", "code", "printed"),
    [
        ("", 0, ["at exit None"]),
        ("sys.exit()", 0, ["at exit None"]),
        ("sys.exit(3)", 3, [f"at exit {EXIT} 3"]),
        ("sys.exit(-1)", 255, [f"at exit {EXIT} 255"]),
        ("def main(): sys.exit('no data')\nmain()", 1, [f"at exit {EXIT} 1: no data"]),
        ("try: sys.exit(3)\nexcept SystemExit: pass", 0, ["at exit None"]),
        ("try: 1 / 0\nexcept ArithmeticError: sys.exit(3)", 3, ["at exit ZeroDivisionError: division by zero"]),
        ("sys.last_value = ValueError('of a cell')", 0, ["at exit None"]),
        ("sys.last_value = ValueError('of a cell')\nsys.exit(3)", 3, [f"at exit {EXIT} 3"]),
        ("try: sys.exit()\nexcept SystemExit: int('x')", 1, ["told ValueError", "at exit ValueError"]),
        ("raise KeyboardInterrupt", -signal.SIGINT, ["told KeyboardInterrupt: ", "at exit Stopped: SIGINT"]),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ["told Stopped: SIGTERM"]),
    ],
)
def test_how_a_script_has_ended(script: str, code: int, printed: list[str]):
    found = end(script)
    assert found[0] == code
    assert [line[: len(said)] for line, said in zip(found[1], printed, strict=True)] == printed


def test_a_signal_waits_until_what_it_would_cut_in_two_is_whole():
    """Also in a function that calls another one, and a second signal while the first is told."""
    code, printed = end("""
listen(lambda error: os.kill(os.getpid(), signal.SIGTERM))
@undisturbed
def inner(): os.kill(os.getpid(), signal.SIGTERM)
with undisturbed:
    inner()
    print("whole", flush=True)
print("never")
""")
    assert code == -signal.SIGTERM
    assert printed[:2] == ["whole", "told Stopped: SIGTERM"] and "never" not in printed


def test_all_is_put_back_when_the_last_one_stops_listening():
    code, printed = end("""
more = listen()
stop()
print(now()[0] is before[0], now()[1:] == before[1:])
more()
print(now() == before)
more = listen(print)
sys.excepthook = ours = lambda *error: None
more()
print(sys.excepthook is ours)
""")
    assert (code, printed) == (0, ["False True", "True", "True", "at exit None"])


def test_a_child_that_is_forked_does_not_listen():
    code, printed = end("""
if not os.fork():
    print(now() == before, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.wait()[1]))
""")
    assert (code, printed) == (0, ["True", str(-signal.SIGTERM), "at exit None"])
