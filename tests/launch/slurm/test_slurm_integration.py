"""A real Slurm: what it computes, and what its ends leave behind."""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.library.runs.check import check, resolved
from gradsync.record import Run, read_rows, read_run
from slurm_cluster import SlurmCluster, why_not
from started import alive, pids, wait_until

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

SHORT = {"model": "logistic", "batch_size": 24, "steps": 20, "eval": False, "threads": 1}
TWO_BY_TWO = SHORT | {"launcher": "slurm", "nodes": 2, "workers_per_node": 2}
LONG = SHORT | {"launcher": "slurm", "nodes": 2, "workers_per_node": 1, "steps": 1_000_000, "measure": False}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    outside = {name: value for name, value in os.environ.items() if name.startswith("SLURM")}
    found = SlurmCluster(tmp_path_factory.mktemp("slurm"))
    for name in outside:
        del os.environ[name]
    os.environ |= {"SLURM_CONF": str(found.conf), "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
    try:
        yield found
    finally:
        for name in ("SLURM_CONF", "FI_PROVIDER", "FI_TCP_IFACE"):
            del os.environ[name]
        os.environ |= outside
        found.stop()


@contextmanager
def once_under_way(out: Path, act: Callable[[], object]) -> Iterator[None]:
    """Acts in another thread when rank 0 of the run that is made there has done a few steps."""

    def some_steps() -> bool:
        files = list(out.glob("*/rank-0.jsonl"))
        return bool(files) and sum(row["kind"] == "step" for row in read_rows(files[0])) > 2

    def wait() -> None:
        wait_until(some_steps, 60)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def sha(run: Run) -> set[str]:
    assert run.status == "completed", run.summary.error
    return {rank.parameters_sha256 for rank in run.summary.ranks}


def test_a_job_on_two_nodes_has_the_same_bits_as_processes_here(cluster: SlurmCluster, tmp_path: Path):
    ways = ("ddp", "all-reduce")  # in one job
    slurm = launch.run_in_turn(
        [resolved(RunConfig(**TWO_BY_TWO, strategy=way, out=str(tmp_path / "slurm"))) for way in ways]
    )
    local = launch.run_in_turn(
        [resolved(RunConfig(**SHORT, workers=4, strategy=way, out=str(tmp_path))) for way in ways]
    )
    for one, other in zip(slurm, local, strict=True):
        assert len(sha(one)) == 1
        assert sha(one) == sha(other)
        assert [rank.node for rank in one.summary.ranks] == ["node1", "node1", "node2", "node2"]
        assert one.summary.nodes == 2
        assert one.summary.ledger["wire"] > 0

    summary_file = slurm[1].folder / "summary.json"
    summary_file.unlink()
    again = launch.finish(slurm[1].folder).summary
    assert replace(again, total_seconds=0) == replace(slurm[1].summary, total_seconds=0)


def test_a_cancelled_job_leaves_a_readable_record(cluster: SlurmCluster, tmp_path: Path, capfd):
    with once_under_way(tmp_path, lambda: cluster.call("scancel", "--user=root")):
        run = launch.run(resolved(RunConfig(**LONG, out=str(tmp_path))))
    steps = run.summary.steps
    assert (run.status, run.stopped_by) == ("failed", None)
    assert steps > 2
    job = run.summary.error.message.split()[3]
    assert run.summary.error.message == f"the Slurm job {job} was cancelled after {steps} steps"
    assert f"Slurm job {job} is running on node[1-2]" in capfd.readouterr().err


def test_ctrl_c_cancels_the_job(cluster: SlurmCluster, tmp_path: Path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    try:
        with once_under_way(tmp_path, lambda: os.kill(os.getpid(), signal.SIGINT)):
            run = launch.run(resolved(RunConfig(**LONG, out=str(tmp_path))))
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.stopped_by == "SIGINT"
    assert cluster.call("squeue", "-h") == ""
    assert not any(map(alive, pids(run.folder)))


def test_inside_an_allocation_it_is_a_step_over_mpi_too(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    subprocess.run(["salloc", "--no-shell", "-N2", "-n2"], check=True, capture_output=True, timeout=30)
    job = cluster.call("squeue", "-h", "-o", "%i")
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_NTASKS", "2")
    transport = "mpi" if importlib.util.find_spec("mpi4py") else "gloo"
    base = SHORT | {"launcher": "slurm", "strategy": "all-reduce", "transport": transport, "out": str(tmp_path)}
    with pytest.raises(InputError, match=r"has 4 ranks, but SLURM_NTASKS of the allocation .* is 2\. HINT"):
        check([RunConfig(**base, nodes=2, workers_per_node=2)])
    config = RunConfig(**base, nodes=2)
    check([config])
    run = launch.run(resolved(config))
    assert len(sha(run)) == 1
    assert [rank.node for rank in run.summary.ranks] == ["node1", "node2"]
    assert run.summary.transport == transport
    assert cluster.call("squeue", "-h", "-o", "%i") == job
    cluster.call("scancel", job)


def test_watch_finds_the_ranks_of_srun_on_two_nodes(cluster: SlurmCluster, cli, tmp_path: Path):
    """srun passes our environment on. The script is not ours, and takes its rank from Slurm."""
    script = Path(__file__).parents[2] / "support" / "course" / "part3.py"
    words = shlex.join([sys.executable, str(script), "--num-nodes", "2", "--master-ip", (tmp_path / "meet").as_uri()])
    srun = ["srun", "-N2", "-n2", "sh", "-c", f"exec {words} --rank $SLURM_PROCID"]
    done = cli("watch", "--name", "seen", "--", *srun)
    assert done.returncode == 0, done.stderr
    run = read_run(tmp_path / "runs" / "seen")
    assert len(sha(run)) == 1 and run.summary.strategy == "ddp" and run.summary.steps == 12
    assert [rank.node for rank in run.summary.ranks] == ["node1", "node2"]


def test_slurm_refuses_in_its_own_words_and_takes_what_is_printed(cluster: SlurmCluster, tmp_path: Path):
    run = launch.run(resolved(RunConfig(**TWO_BY_TWO, partition="nowhere", out=str(tmp_path / "refused"))))
    assert "Slurm refuses the job: invalid partition specified: nowhere" in run.summary.error.message
    assert run.summary.error.traceback == ""
    text = launch.printed(
        resolved(RunConfig(**TWO_BY_TWO, time="10", sbatch=("comment=two words",), out=str(tmp_path)))
    )
    done = subprocess.run(["sbatch", "--test-only"], input=text, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "using 4 processors on nodes node[1-2]" in done.stderr
    assert cluster.call("squeue", "-h") == ""
