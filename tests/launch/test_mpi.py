"""What mpiexec is told, and what its words mean, without starting it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch.mpi import command, find_mpiexec, outcome
from gradsync.launch.outcome import Outcome

KILLED = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 4711 RUNNING AT somewhere
=   EXIT CODE: 9
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
"""


def test_the_command_line():
    config = RunConfig(strategy="ps-sync", workers=3, servers=2, transport="mpi", batch_size=6, mpiexec="env -u X")
    found = command(config.resolved(), [Path("runs/a"), Path("runs/b")])
    worker = [sys.executable, "-u", "-m", "gradsync.worker", *map(os.path.abspath, ("runs/a", "runs/b"))]
    assert found == ["env", "-u", "X", "-n", "5", *worker]


def test_what_the_end_of_mpiexec_means():
    assert outcome(0, "", told=False) == Outcome()
    assert outcome(1, KILLED, told=True).exit_codes == {0: 1}
    assert str(outcome(9, KILLED, told=False).failure).startswith("one of the processes was killed by SIGKILL")
    assert str(outcome(3, "", told=False).failure) == "one of the processes ended with exit code 3"


def test_an_mpiexec_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with pytest.raises(InputError, match="--mpiexec no-such-thing -x: there is no such command"):
        find_mpiexec("no-such-thing -x")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(InputError, match="needs mpiexec: pip install"):
        find_mpiexec(None)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"strategy": "ddp"}, "ddp does not run over MPI"),
        ({"launcher": "local"}, "what mpiexec starts talks over MPI"),
        ({"device": "cuda"}, "carries what is in the host's memory"),
    ],
)
def test_what_does_not_go_with_mpi_is_refused(settings: dict, sentence: str):
    with pytest.raises(InputError, match=sentence):
        RunConfig(**{"workers": 2, "transport": "mpi", **settings}).resolved()


def test_either_flag_is_enough_and_the_default_strategy_is_one_that_runs():
    for given in ({"launcher": "mpi"}, {"transport": "mpi"}):
        config = RunConfig(workers=2, **given).resolved()
        assert (config.launcher, config.transport) == ("mpi", "mpi")
    assert config.strategy == "bucketed"
