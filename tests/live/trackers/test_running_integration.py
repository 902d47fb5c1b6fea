"""Trackers of the user's own in processes of their own: how runs end, and trackers that never do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradsync.config import RunConfig
from gradsync.live.trackers.running import Trackers
from gradsync.record import RankLog
from made_up import made_up
from started import wait_until

TRACKERS = """
import json, pathlib, time

class Notes:
    def __init__(self, folder, settings):
        self.file = open(folder / "notes", "a", buffering=1)
        self.note("made", settings["strategy"])
    def note(self, *words): self.file.write(json.dumps(words) + "\\n")
    def log(self, points): self.note("log", sorted({point.step for point in points}))
    def event(self, step, text): self.note("event", step)
    def end(self, status, summary): self.note("end", status, summary.get("steps"))

class Hangs(Notes):
    def end(self, status, summary):
        self.note("hangs")
        time.sleep(1000)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("own") / "own.py"
    file.write_text(TRACKERS)
    return file


def notes(folder: Path) -> list[list[Any]]:
    return [json.loads(line) for line in (folder / "notes").read_text().splitlines()]


def test_every_row_arrives_and_then_how_the_run_ended(tmp_path: Path, own: Path):
    done = made_up(tmp_path, RunConfig(workers=2, steps=12)).folder
    failed = made_up(tmp_path, RunConfig(workers=2, steps=3), error={**ERROR}).folder
    stopped = made_up(tmp_path, RunConfig(workers=2, steps=3), error={**ERROR, "signal": "SIGTERM"}).folder
    killed = made_up(tmp_path, RunConfig(workers=2, steps=3)).folder
    (killed / "summary.json").unlink()
    unwritten = made_up(tmp_path, RunConfig(workers=2, steps=5)).folder
    (unwritten / "summary.json").unlink()
    for rank in (0, 1):
        RankLog(unwritten, rank).write("end", time=1.0)
    trackers = Trackers()
    for folder in (done, failed, stopped, killed, unwritten):
        trackers.begin(folder, [f"{own}:Notes"])
    trackers.end()
    assert notes(done)[0] == ["made", "ddp"]
    assert [step for note in notes(done) if note[0] == "log" for step in note[1]] == list(range(13))  # 0: the host
    ends = [notes(folder)[-1] for folder in (done, failed, stopped, killed, unwritten)]
    assert ends == [
        ["end", "completed", 12],
        ["end", "failed", 3],
        ["end", "killed", 3],
        ["end", "killed", None],
        ["end", "completed", 5],
    ]


ERROR = {"rank": 0, "type": "E", "message": "m", "traceback": "", "log": []}


def test_one_that_hangs_at_the_end_is_left_behind_with_a_sentence(
    tmp_path: Path, own: Path, capfd: pytest.CaptureFixture[str]
):
    folder = made_up(tmp_path, RunConfig(workers=2, steps=3)).folder
    trackers = Trackers(patience=0.5)
    trackers.begin(folder, [f"{own}:Hangs"])
    trackers.begin(folder, [])  # the run is over
    wait_until(lambda: (folder / "notes").exists() and notes(folder)[-1] == ["hangs"], 60)
    trackers.end()
    told = capfd.readouterr().err
    assert f"{own}:Hangs was not done 0.5 s after the end of the run" in told


def test_the_run_of_a_process_that_was_killed_is_killed_in_the_tracker(tmp_path: Path, own: Path):
    folder = made_up(tmp_path, RunConfig(workers=2, steps=3)).folder
    (folder / "summary.json").unlink()
    (folder / "rank-1.jsonl").unlink()
    script = f"""
import os, signal
from pathlib import Path
from gradsync.live.trackers.running import Trackers
Trackers().begin(Path({str(folder)!r}), [{f"{own}:Notes"!r}])
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], env=dict(os.environ), timeout=60)
    wait_until(lambda: (folder / "notes").exists() and notes(folder)[-1] == ["end", "killed", None], 60)


SCRIPT = """
import sys, torch, gradsync
torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
sync = gradsync.attach(
    model,
    torch.optim.SGD(model.parameters(), lr=0.1),
    strategy="all-reduce",
    record="runs/mine",
    log_to=["mlflow", "tensorboard"],
)
for step in range(12):
    x = torch.randn(16, 8)
    loss = torch.nn.functional.cross_entropy(sync(x), (x.sum(1) > 0).long())
    loss.backward()
    sync.log(loss=loss.item(), agreement=0.5 + step)
    sync.step()
"""


def test_a_script_under_torchrun_is_logged_to_two_trackers_by_rank_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("mlflow", reason="needs the extra mlflow")
    (tmp_path / "mine.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "mine.py"]
    store = (tmp_path / "store").as_uri()
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": store,
        "MLFLOW_EXPERIMENT_NAME": "lab",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    client = MlflowClient(store)
    (run,) = client.search_runs([client.get_experiment_by_name("lab").experiment_id])
    assert (run.info.run_name, run.info.status) == ("mine", "FINISHED")
    assert run.data.params["strategy"] == "all-reduce"
    history = client.get_metric_history(run.info.run_id, "train/agreement")
    assert [(item.step, item.value) for item in history] == [(step + 1, 0.5 + step) for step in range(12)]
    assert {"train/loss", "ledger/wire_ms", "rank-1/ledger/wire_ms"} <= set(run.data.metrics)
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / "runs" / "mine" / "tensorboard" / "rank-0")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == list(range(1, 13))
