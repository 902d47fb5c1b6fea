"""The record of a user's own loop in two processes: what it shows, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradsync.ledger import cost
from gradsync.record import Run, rank_records, read_run
from recorded_loop import BATCH, BATCHES, EPOCHS, FEWER, LATE_SECONDS, READ_SECONDS

SCRIPT = Path(__file__).parent.parent / "support" / "scripts" / "recorded_loop.py"
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(SCRIPT)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """One start for several recordings, one after another."""
    done = subprocess.run([*LAUNCH, str(folder), "complete"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_in(place: Path) -> Run:
    run = read_run(place)
    assert isinstance(run, Run) and run.summary
    return run


@pytest.mark.parametrize("strategy", ["all-reduce", "bucketed", "ddp"])
def test_it_shows_where_the_time_and_the_bytes_of_the_loop_went(printed: str, folder: Path, strategy: str):
    run = run_in(folder / strategy)
    figures = run.summary
    assert figures and figures.status == "completed"
    assert (figures.world_size, figures.steps, figures.batch_size) == (2, EPOCHS * BATCHES, 2 * BATCH)
    for rank in figures.ranks:
        assert rank.ledger and rank.seconds_per_step
        assert sum(rank.ledger.values()) == pytest.approx(rank.seconds_per_step, rel=0.02)
        assert rank.ledger["data"] > READ_SECONDS * (1 - 1 / BATCHES)  # the step after a test begins with its forward
        assert rank.payload and rank.network and rank.network.closed_form and figures.gradient_bytes
        assert rank.payload.kinds["gradients"].sent_bytes == figures.steps * figures.gradient_bytes
        assert rank.network.closed_form.sent_bytes == figures.steps * cost.all_reduce(2, figures.gradient_bytes).sent
        assert rank.network.sent_bytes == pytest.approx(rank.network.closed_form.sent_bytes, rel=0.05)
    early, late = (rank.ledger for rank in figures.ranks)
    assert early and late and early["wait"] > LATE_SECONDS / 2 > late["wait"]
    assert figures.straggler and figures.straggler.rank == 1


def test_every_strategy_makes_the_same_steps_although_it_is_recorded(printed: str, folder: Path):
    """With two ranks the mean has the same bits, however it is taken."""
    runs = [run_in(folder / strategy).summary for strategy in ("all-reduce", "bucketed", "ddp")]
    assert len({rank.parameters_sha256 for figures in runs if figures for rank in figures.ranks}) == 1


def test_what_was_logged_is_in_its_row_and_in_the_summary(printed: str, folder: Path):
    run = run_in(folder / "all-reduce")
    assert run.summary and len(run.summary.train_loss) == len(run.summary.train_accuracy) == EPOCHS
    assert run.summary.train_loss[1] < run.summary.train_loss[0]
    assert [row["epoch"] for row in run.steps(1)] == [1] * BATCHES + [2] * BATCHES


def test_rank_0_prints_its_tables_once(printed: str, folder: Path):
    assert printed.count("the ledger of a step, rank by rank") == 3
    for strategy in ("all-reduce", "bucketed", "ddp"):
        assert str(folder / strategy) in printed


def test_a_rank_without_a_batch_takes_part_in_steps_of_no_samples(printed: str, folder: Path):
    run = run_in(folder / "uneven")
    assert run.status == "completed"
    first, second = run.steps(0), run.steps(1)
    assert len(first) == len(second) == EPOCHS * BATCHES
    without = [row["step"] for row in second if row["samples"] == 0]
    assert without == [*range(FEWER + 1, BATCHES + 1), *range(BATCHES + FEWER + 1, EPOCHS * BATCHES + 1)]
    assert all("loss" not in row for row in second if row["step"] in without)
    assert run.summary and len({rank.parameters_sha256 for rank in run.summary.ranks}) == 1
    assert run.summary.samples_per_second


def test_a_folder_that_cannot_take_the_record_is_refused_on_every_rank(printed: str):
    """Two processes print at once: their lines may share one line."""
    counted = {text: printed.count(text) for text in ("refused: ", "is not empty", "rank 0 refuses to record")}
    assert list(counted.values()) == [4, 1, 2], counted


EXITED = "the script ended itself with exit code 3"


@pytest.mark.parametrize(
    ("how", "kind", "message", "where"),
    [("fails", "ValueError", "deliberate", "recorded_loop.py"), ("exits", "Exited", EXITED, "")],
)
def test_a_rank_that_fails_is_named_with_its_reason(folder: Path, how: str, kind: str, message: str, where: str):
    """It takes no part in the steps that the other still makes."""
    done = subprocess.run([*LAUNCH, str(folder), how], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    run = run_in(folder / how)
    assert run.status == "failed" and run.error
    assert (run.error.rank, run.error.type, run.error.message) == (1, kind, message)
    assert where in run.error.traceback and bool(where) == bool(run.error.traceback)
    assert BATCHES <= len(run.steps()) <= BATCHES + 1
    assert f"rank 1: {kind}: {message}" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_script_and_not_its_record(folder: Path, number: signal.Signals):
    place = folder / f"by {number.name}"
    place.mkdir()
    output = place / "output"
    with open(output, "wb") as file:
        launcher = subprocess.Popen(
            [*LAUNCH, str(place), "waits"], stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            until = time.monotonic() + 60
            while output.read_text().count("waiting") < 2:
                assert launcher.poll() is None and time.monotonic() < until, output.read_text()
                time.sleep(0.05)
            os.killpg(launcher.pid, number)
            launcher.wait(30)
        finally:
            os.killpg(launcher.pid, signal.SIGKILL) if launcher.poll() is None else None
    run = run_in(place / "waits")
    assert run.stopped_by == number.name
    assert len(run.steps()) == len(run.steps(1)) == BATCHES
    assert all(record.end is None and record.error for record in rank_records(run.folder, 2))
