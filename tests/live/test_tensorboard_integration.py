"""Event files read back by TensorBoard's own reader, and what else a measured run leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gradsync.ledger.parts import HIDDEN, PARTS

accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra tensorboard"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    """The whole way: command line, two workers of which one is slow, 25 steps."""
    folder = tmp_path_factory.mktemp("tensorboard")
    command = [sys.executable, "-m", "gradsync.cli", "train", "--model", "logistic", "--strategy", "ddp"]
    command += ["--workers", "2", "--steps", "25", "--batch-size", "16", "--train-samples", "400", "--tensorboard"]
    command += ["--inject", "rank=1,where=forward,ms=60", "--log-every", "25"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done, next((folder / "runs").iterdir())


def read(folder: Path):
    reader = accumulator.EventAccumulator(str(folder))
    reader.Reload()
    return reader


def test_its_own_reader_lists_the_tags_of_every_rank(run):
    for rank in (0, 1):
        tags = set(read(run[1] / "tensorboard" / f"rank-{rank}").Tags()["scalars"])
        assert {f"ledger/{part}_ms" for part in (*PARTS, HIDDEN)} <= tags
        assert {"train/loss", "train/samples_per_second", "train/seconds_per_step"} <= tags
        assert {"test/accuracy", "test/loss"} <= tags
        assert {"network/sent_mb_per_second", "network/received_mb_per_second", "host/cpu_percent"} <= tags


def test_the_curves_are_those_of_the_record(run):
    rows = [json.loads(line) for line in (run[1] / "rank-1.jsonl").read_text().splitlines()]
    losses = [(row["step"], row["loss"]) for row in rows if row["kind"] == "step"]
    curve = [(event.step, event.value) for event in read(run[1] / "tensorboard" / "rank-1").Scalars("train/loss")]
    assert [step for step, _ in curve] == [step for step, _ in losses]
    assert [value for _, value in curve] == pytest.approx([value for _, value in losses], rel=1e-5)
    forward = [event.value for event in read(run[1] / "tensorboard" / "rank-1").Scalars("ledger/forward_ms")]
    assert len(forward) == 25
    assert min(forward) > 55, "the injected delay is in the curve"


def test_the_accuracy_is_that_of_the_whole_test_set_which_the_ranks_share(run):
    test = json.loads((run[1] / "summary.json").read_text())["test"]
    for rank in (0, 1):
        events = read(run[1] / "tensorboard" / f"rank-{rank}")
        for name in ("accuracy", "loss"):
            assert events.Scalars(f"test/{name}")[-1].value == pytest.approx(test[name], rel=1e-5)


def test_the_graph_is_there_once(run):
    assert read(run[1] / "tensorboard" / "model").Tags()["graph"] is True
    assert not any(read(run[1] / "tensorboard" / f"rank-{rank}").Tags()["graph"] for rank in (0, 1))


def test_the_slow_rank_is_named_while_it_trains_and_after(run):
    sentence = "rank 1 arrives last in"
    live = next(line for line in run[0].stdout.splitlines() if "step 25/25" in line)
    assert sentence in live
    assert live.endswith("cause: forward")
    assert f"ddp: {sentence}" in run[0].stdout


def test_show_prints_the_ledger_and_trace_writes_a_file(run, cli):
    shown = cli("show", str(run[1]), "--ledger").stdout
    assert "the ledger of a step, rank by rank" in shown
    bar = next(line for line in shown.splitlines() if line.startswith("rank 1 ") and "ff" in line)
    assert bar.count("f") > 40
    done = cli("trace", str(run[1]), "-o", "here.json", "--until", "10")
    assert done.returncode == 0, done.stderr
    assert "steps 1 to 10 of 25" in done.stdout
    wrong = cli("trace", "no-such-run")
    assert wrong.returncode == 2
    assert "holds no run" in wrong.stderr
