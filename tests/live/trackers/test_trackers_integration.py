"""One run in three trackers, each read back with its own client, beside one that fails; and what else it leaves."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from gradsync.ledger.parts import HIDDEN, PARTS

accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra tensorboard"
)
pytest.importorskip("mlflow", reason="needs the extra mlflow")
pytest.importorskip("wandb", reason="needs the extra wandb")

BROKEN = """
class Broken:
    def __init__(self, folder, settings): pass
    def log(self, points): raise OSError(28, "No space left on device")
    event = end = log
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    """The whole way: command line, two workers of which one is slow, 25 steps."""
    folder = tmp_path_factory.mktemp("trackers")
    (folder / "broken.py").write_text(BROKEN)
    command = [sys.executable, "-m", "gradsync.cli", "train", "--model", "logistic", "--strategy", "ddp"]
    command += ["--workers", "2", "--steps", "25", "--batch-size", "16", "--train-samples", "400", "--tensorboard"]
    command += ["--log-to", "mlflow,wandb,broken.py:Broken"]
    command += ["--inject", "rank=1,where=forward,ms=60", "--log-every", "25"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "WANDB_"))}
    environment["NETRC"] = str(folder / "no-login")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done, next((folder / "runs").iterdir())


@pytest.fixture(scope="module")
def logged(run):
    """The client of MLflow's file store, and the run in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        client = MlflowClient((run[1].parent.parent / "mlruns").as_uri())
        found = client.search_runs([client.get_experiment_by_name("gradsync").experiment_id])
        assert len(found) == 1
        yield client, found[0]


@pytest.fixture(scope="module")
def offline(run):
    return WandbFile(run[1] / "wandb")


def recorded(run, rank: int) -> dict[int, dict]:
    rows = [json.loads(line) for line in (run[1] / f"rank-{rank}.jsonl").read_text().splitlines()]
    return {row["step"]: row for row in rows if row["kind"] == "step"}


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
    losses = [(step, row["loss"]) for step, row in recorded(run, 1).items()]
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


def test_a_tracker_that_fails_is_told_of_in_one_sentence_and_the_run_is_none_the_worse(run):
    told = (
        "gradsync: broken.py:Broken gets no more of this run: [Errno 28] No space left on device: the disk is full."
    )
    assert [line.startswith(told) for line in run[0].stderr.splitlines()] == [True]
    assert json.loads((run[1] / "summary.json").read_text())["status"] == "completed"


def test_tensorboard_has_the_events_the_settings_and_the_summary_as_texts(run):
    events = read(run[1] / "tensorboard" / "rank-0")
    (late,) = events.Tensors("events")
    assert late.step == 20
    assert late.tensor_proto.string_val[0].startswith(b"steps 1 to 20: rank 1 arrives last in")
    (settings,) = events.Tensors("settings")
    assert b"| batch_size | 16 |" in settings.tensor_proto.string_val[0]
    (summary,) = events.Tensors("summary")
    assert b"| status | completed |" in summary.tensor_proto.string_val[0]


def test_mlflow_has_the_run_with_its_settings_status_and_summary(run, logged):
    _, found = logged
    assert found.info.run_name == run[1].name
    assert found.info.status == "FINISHED"
    assert found.data.params["batch_size"] == "16"
    assert found.data.params["strategy"] == "ddp"
    assert found.data.tags["events"].startswith("steps 1 to 20: rank 1 arrives last in")
    summary = json.loads((run[1] / "summary.json").read_text())
    for name in ("seconds_per_step", "samples_per_second", "total_seconds"):
        assert found.data.metrics[f"summary/{name}"] == pytest.approx(summary[name])
    assert found.data.metrics["summary/test/accuracy"] == pytest.approx(summary["test"]["accuracy"])
    assert found.data.metrics["summary/ledger/wait"] == pytest.approx(summary["ledger"]["wait"])


def test_mlflow_has_every_step_of_rank_0_and_those_of_rank_1_in_which_it_differs(run, logged):
    client, found = logged

    def series(tag: str) -> list[tuple[int, float]]:
        return sorted((item.step, item.value) for item in client.get_metric_history(found.info.run_id, tag))

    assert series("train/loss") == [(step, row["loss"]) for step, row in recorded(run, 0).items()]
    own = [(step, row["seconds"]) for step, row in recorded(run, 1).items()]
    assert series("rank-1/train/seconds_per_step") == own
    assert min(value for _, value in series("rank-1/ledger/forward_ms")) > 55, "the injected delay is in the curve"
    assert median(value for _, value in series("rank-1/straggler/held_up_ms")) > 30
    assert series("straggler/rank")[0] == (20, 1.0)
    assert {f"rank-1/ledger/{part}_ms" for part in (*PARTS, HIDDEN)} <= set(found.data.metrics)
    assert {"network/payload_sent_mb", "rank-1/host/cpu_percent", "test/accuracy"} <= set(found.data.metrics)
    assert "rank-1/train/loss" not in found.data.metrics


def test_wandb_has_written_the_same_offline_into_the_run_folder(run, logged, offline):
    assert (offline.run.project, offline.run.display_name) == ("gradsync", run[1].name)
    assert offline.exit_code == 0
    assert offline.config["batch_size"] == 16
    assert offline.series("train/loss") == [(step, row["loss"]) for step, row in recorded(run, 0).items()]
    assert min(value for _, value in offline.series("rank-1/ledger/forward_ms")) > 55
    metrics = logged[1].data.metrics
    assert offline.summary["status"] == "completed"
    assert offline.summary["summary/seconds_per_step"] == pytest.approx(metrics["summary/seconds_per_step"])
    assert {tag for row in offline.history for tag in row} >= {name for name in metrics if "summary/" not in name}
    (table,) = [row["events/path"] for row in offline.history if "events/path" in row]
    rows = json.loads(next((run[1] / "wandb").rglob(f"files/{table}")).read_text())["data"]
    assert rows[0][0] == 20
    assert rows[0][1].startswith("steps 1 to 20: rank 1 arrives last in")


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


BLOCK, HEADER = 32_768, 7  # of the log format of LevelDB, which the file has; its own header is as long
WHOLE, LAST = 1, 4


class WandbFile:
    """What wandb has written offline, read with its own message types: the run, its history, config and summary."""

    def __init__(self, folder: Path) -> None:
        (path,) = folder.rglob("*.wandb")
        self.run: Any = None
        self.exit_code: int | None = None
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        for record in records(path.read_bytes()):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
            elif kind == "exit":
                self.exit_code = record.exit.exit_code
            elif kind == "history":
                self.history.append(values(record.history.item))
            elif kind == "summary":
                self.summary |= values(record.summary.update)

    @property
    def config(self) -> dict[str, Any]:
        return values(self.run.config.update)

    def series(self, tag: str) -> list[tuple[int, float]]:
        return [(row["step"], row[tag]) for row in self.history if tag in row]


def values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def records(data: bytes) -> Iterator[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    place, parts = HEADER, b""
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (WHOLE, LAST):
            record = Record()
            record.ParseFromString(parts)
            parts = b""
            yield record
