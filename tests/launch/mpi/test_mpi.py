"""What mpiexec is told, and what its words mean, without starting it."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch.mpi import leftovers as mpi_leftovers
from gradsync.launch.mpi.first_to_end import LOOK_SECONDS, FirstToEnd, was_interrupted
from gradsync.launch.mpi.mpiexec import command, find_mpiexec, outcome
from gradsync.launch.outcome import UNTOLD, Outcome, died
from gradsync.parent import start_ticks
from gradsync.record import RankLog
from made_up import resolved, start_row
from started import heed_signals, wait_until

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
    found = command(resolved(config), [Path("runs/a"), Path("runs/b")])
    worker = [sys.executable, "-u", "-m", "gradsync.rank", "worker", *map(os.path.abspath, ("runs/a", "runs/b"))]
    assert found == ["env", "-u", "X", "-n", "5", *worker]


FORKED = """
[0]0:Return code = 0, signaled with Quit
[0]1:Return code = 0, signaled with Quit
[0]2:Return code = 0, signaled with Killed
[0]3:Return code = 3
"""


def record(folder: Path, rank: int, pid: int, error: bool = False) -> None:
    log = RankLog(folder, rank)
    log.write(**start_row(rank=rank, node="somewhere", pid=pid))
    if error:
        log.write("error", type="ValueError", message="no", traceback="", lost_peer=False, time=1.0)
    log.close()


def test_what_the_end_of_mpiexec_means(tmp_path: Path):
    assert outcome(0, "", tmp_path, 2) == Outcome()
    assert str(outcome(255, "no such host", tmp_path, 2).failure) == "mpiexec started nothing: no such host"
    unnamed = str(outcome(9, KILLED, tmp_path, 2).failure)
    assert unnamed == "one of the processes was killed by SIGKILL; mpiexec does not say which rank it was"
    record(tmp_path, 0, 4712)
    assert "exit code 3; mpiexec does not say which" in str(outcome(3, "", tmp_path, 2).failure)
    record(tmp_path, 1, 4711)
    assert outcome(9, KILLED, tmp_path, 2).exit_codes == {1: -9}
    record(tmp_path, 0, 4712, error=True)
    assert outcome(1, KILLED, tmp_path, 2).exit_codes == {0: 1}


def test_the_rank_that_ended_first_is_to_blame_whatever_the_others_recorded(tmp_path: Path):
    record(tmp_path, 0, 4712, error=True)  # its peer was gone
    record(tmp_path, 1, 4711)
    record(tmp_path, 2, 4713)  # mpiexec has ended it
    assert outcome(1, KILLED, tmp_path, 3, ended=[1, 0, 2]).exit_codes == {1: -9}
    assert outcome(0, FORKED, tmp_path, 4, ended=[2, 3]).exit_codes == {2: -9}
    assert outcome(0, FORKED, tmp_path, 4, ended=[3, 2]).exit_codes == {2: -9}  # both in one look
    untold = outcome(1, "", tmp_path, 3, ended=[2, 0, 1])
    assert untold.exit_codes == {2: UNTOLD}
    assert died(UNTOLD) == "the process was killed or crashed: its launcher does not say which"
    assert outcome(1, "", tmp_path, 3, ended=[0, 1, 2]).exit_codes == {0: 1}  # it failed by itself, and said why


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux 5.3 or newer")
def test_the_kernel_tells_which_rank_ended_first(tmp_path: Path):
    sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    try:
        with FirstToEnd(tmp_path, 3) as ended:
            for rank, sleeper in enumerate(sleepers):
                log = RankLog(tmp_path, rank)
                log.write(**start_row(rank=rank, pid=sleeper.pid, start_ticks=start_ticks(sleeper.pid)))
                log.close()
            time.sleep(3 * LOOK_SECONDS)
            for rank in (1, 2, 0):
                sleepers[rank].kill()
                wait_until(lambda rank=rank: rank in ended.order, 10)
        assert ended.order == [1, 2, 0]
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux 5.3 or newer")
def test_a_rank_that_ended_before_anybody_looked_comes_first(tmp_path: Path):
    gone, living = subprocess.Popen(["true"]), subprocess.Popen(["sleep", "60"])
    try:
        before = start_ticks(gone.pid)
        gone.wait()  # reaped, as mpiexec does
        for rank, process in ((0, living), (1, gone)):
            log = RankLog(tmp_path, rank)
            log.write(**start_row(rank=rank, pid=process.pid, start_ticks=start_ticks(process.pid) or before))
            log.close()
        with FirstToEnd(tmp_path, 2) as ended:
            wait_until(lambda: ended.order, 10)
            living.kill()
            wait_until(lambda: len(ended.order) == 2, 10)
        assert ended.order == [1, 0]
    finally:
        living.kill()
        living.wait()


@pytest.mark.parametrize(("number", "interrupted"), [(signal.SIGINT, True), (signal.SIGKILL, False)])
def test_a_rank_that_mpiexec_has_ended_is_told_from_one_that_was_killed(number: signal.Signals, interrupted: bool):
    sleeper = subprocess.Popen(["sleep", "60"], preexec_fn=heed_signals)
    try:
        assert not was_interrupted(sleeper.pid)
        sleeper.send_signal(number)
        os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
        assert was_interrupted(sleeper.pid) is interrupted
    finally:
        sleeper.kill()
        sleeper.wait()
    assert not was_interrupted(sleeper.pid)


def test_gforker_names_every_rank_that_failed_by_itself(tmp_path: Path):
    assert outcome(0, FORKED, tmp_path, 4).exit_codes == {2: -9, 3: 3}


def test_on_one_host_the_mpiexec_that_opens_no_port_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("mpiexec", "mpiexec.gforker"):
        (tmp_path / name).write_text("#!/bin/sh")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert find_mpiexec(None) == [str(tmp_path / "mpiexec")]
    assert find_mpiexec(None, one_host=True) == [str(tmp_path / "mpiexec.gforker"), "-exitinfo"]
    assert find_mpiexec("env", one_host=True) == ["env"]
    (tmp_path / "mpiexec.gforker").unlink()
    assert find_mpiexec(None, one_host=True) == [str(tmp_path / "mpiexec")]


def test_only_what_no_process_can_need_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(mpi_leftovers, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = ("mpich_shm_left", "mpich_shm_mapped", "ucx_shm_posix_open", "hydra_hwloc_xmlfile_x", "mine")
    for name in names:
        (tmp_path / name).write_bytes(b"x" * 4096)
    with open(tmp_path / "mpich_shm_mapped", "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    with mapped, open(tmp_path / "ucx_shm_posix_open"):
        mpi_leftovers.remove()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"mpich_shm_mapped", "ucx_shm_posix_open", "mine"}


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
        ({"launcher": "local"}, "processes started by mpiexec communicate over MPI"),
        ({"device": "cuda"}, "carries host memory only"),
    ],
)
def test_what_does_not_go_with_mpi_is_refused(settings: dict, sentence: str):
    with pytest.raises(InputError, match=sentence):
        resolved(RunConfig(**{"workers": 2, "transport": "mpi", **settings}))


def test_either_flag_is_enough_and_the_default_strategy_is_one_that_runs():
    for given in ({"launcher": "mpi"}, {"transport": "mpi"}):
        config = resolved(RunConfig(workers=2, **given))
        assert (config.launcher, config.transport) == ("mpi", "mpi")
    assert config.strategy == "bucketed"
