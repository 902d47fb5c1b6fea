"""Real MPI: what it computes, reads, and leaves behind."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.data import FILE_SETS, data_folder
from gradsync.launch.mpi import leftovers as mpi_leftovers
from gradsync.library.runs.check import resolved
from gradsync.record import rank_records
from root import needs_root
from started import Started, alive

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="no MPI: pip install gradsync[mpi]"
)

# Starts the processes it is asked for, but they do not find each other: what the mpiexec of another MPI does.
WRONG_MPIEXEC = """#!/bin/sh
count=$2; shift 2
for i in $(seq $count); do "$@" & pids="$pids $!"; done
code=0
for pid in $pids; do wait $pid || code=$?; done
exit $code
"""


def test_the_wrong_mpiexec_is_explained(cli, tmp_path: Path):
    wrong = tmp_path / "wrong-mpiexec"
    wrong.write_text(WRONG_MPIEXEC)
    wrong.chmod(0o755)
    done = cli("train", "--model", "logistic", "--workers", "2", "--transport", "mpi", "--mpiexec", str(wrong))
    assert done.returncode == 1
    assert "finds itself alone in its MPI world: mpiexec belongs to another MPI than the library" in done.stderr
    assert "HINT" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(FILE_SETS["mnist"].locate(data_folder()) is None, reason=f"no mnist in {data_folder()}")
def test_on_real_mnist_mpi_and_gloo_have_the_same_losses(tmp_path: Path):
    """Over MPI the ranks read their parts through MPI-IO, over gloo they map them."""
    base = {"model": "mnist-cnn", "data": "mnist", "strategy": "reduce-broadcast", "workers": 3, "steps": 4}
    base |= {"batch_size": 48, "threads": 1, "precision": "fp64", "test_samples": 60, "out": str(tmp_path)}
    runs = launch.run_in_turn([resolved(RunConfig(**base, transport=name)) for name in ("gloo", "mpi")])
    losses = []
    for run in runs:
        assert run.status == "completed", run.summary.error
        ranks = rank_records(run.folder, 3)
        losses.append([row["loss"] for record in ranks for row in record.steps])
        assert run.summary.read_seconds > 0
        assert run.summary.ledger["wire"] > 0
    assert len(losses[0]) == 12
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    assert runs[0].summary.test.loss == pytest.approx(runs[1].summary.test.loss, rel=1e-12)
    assert [run.summary.transport for run in runs] == ["gloo", "mpi"]


@pytest.mark.alone  # looks at what is left in the machine's shared memory
@pytest.mark.parametrize("where", [[], pytest.param(["--nodes", "3"], marks=needs_root)], ids=["here", "on nodes"])
def test_a_killed_rank_ends_the_run_is_named_and_leaves_nothing(tmp_path: Path, where: list[str]):
    before = leftovers()
    run = Started(tmp_path, "--transport", "mpi", "--strategy", "all-reduce", *where, workers=3)
    try:
        os.kill(run.pids[1], signal.SIGKILL)
        _, errors = run.process.communicate(timeout=30)
        assert run.process.returncode == 1
        assert "failed on rank 1: ProcessDied: the process was killed" in errors  # not always is it known by what
        assert "Traceback" not in errors
        assert not any(alive(pid) for pid in run.pids)
        assert leftovers() <= before
    finally:
        run.end()


@needs_root
def test_on_emulated_nodes_messages_cross_the_links(tmp_path: Path):
    """They share a kernel, so that mpich would find a way through memory."""
    asked = RunConfig(
        **{"model": "mnist-cnn", "strategy": "all-reduce", "transport": "mpi", "nodes": 2, "bandwidth": "100mbit"},
        **{"batch_size": 8, "steps": 4, "window": "all", "eval": False, "out": str(tmp_path)},
    )
    (run,) = launch.run_in_turn([resolved(asked)])
    assert run.status == "completed", run.summary.error
    at_full_rate = run.summary.gradient_bytes / (100e6 / 8)  # with two workers a rank sends S per step
    assert run.summary.ledger["wire"] > 0.8 * at_full_rate


def leftovers() -> set[Path]:
    shared = [path for pattern in mpi_leftovers.SEGMENTS for path in mpi_leftovers.SHARED_MEMORY.glob(pattern)]
    return {*shared, *Path(tempfile.gettempdir()).glob(mpi_leftovers.TOPOLOGIES)}


def test_an_interrupted_run_leaves_no_process(tmp_path: Path):
    run = Started(tmp_path, "--transport", "mpi", "--strategy", "ring", "--json")
    run.process.send_signal(signal.SIGINT)
    output, _ = run.process.communicate(timeout=30)
    assert run.process.returncode == 130
    assert not any(alive(pid) for pid in run.pids)
    assert json.loads(output)["error"]["signal"] == "SIGINT"
