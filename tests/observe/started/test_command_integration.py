"""A command under watch is as it is alone: its streams, its exit code, and what signals do to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from started import heed_signals

WATCH = [sys.executable, "-m", "gradsync.cli", "watch", "--"]
NO_TORCH = "gradsync: nothing was recorded: the command"


def run(words: list[str], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, input=given, capture_output=True, text=True, timeout=60)


def test_streams_folder_arguments_and_exit_code_are_those_of_the_command(tmp_path: Path):
    program = (
        "import os, sys; print(sys.stdin.read(), sys.argv[1:], os.getcwd()); sys.stderr.write('err\\n'); sys.exit(7)"
    )
    words = [sys.executable, "-c", program, "--out", "x", "--", "y"]
    alone, watched = run(words, tmp_path, "typed"), run([*WATCH, *words], tmp_path, "typed")
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout) == (7, watched.stdout)
    first, said = watched.stderr.splitlines()
    assert first == "err"
    assert said == f"{NO_TORCH} ended with exit code 7; torch was not imported (1 Python process)."
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_sitecustomize_that_we_hide_is_run(tmp_path: Path):
    """And the paths of imports are those it would have without us."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.theirs = True")
    program = "import sys; print(sys.theirs, sys.modules['sitecustomize'].__file__, sys.path)"
    words = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    found = [
        subprocess.run(each, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60).stdout
        for each in (words, [*WATCH, *words])
    ]
    assert found[0] == found[1] and found[0].startswith("True ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_us_ends_the_command_and_us_alike(tmp_path: Path, number: signal.Signals):
    """Handled once by the command, which then ends by it."""
    program = f"""
import os, signal, time
def told(number, _):
    print("told", flush=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
signal.signal({number}, told)
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [*WATCH, sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_signals,
    ) as watching:
        assert watching.stdout and watching.stdout.readline() == "ready\n"
        os.kill(watching.pid, number)
        said, errors = watching.communicate(timeout=30)
    assert said == "told\n"
    assert f"was killed by signal {int(number)}; torch was not imported" in errors
    assert watching.returncode == -number
