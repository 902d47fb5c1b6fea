"""What scripts also do: own communication hooks, messages in the background, tests on one rank, hard exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradsync.ledger.stamps import POINT_TO_POINT
from gradsync.observe.averaging import OWN_HOOK
from gradsync.observe.messages import OF_A_SUBGROUP
from gradsync.record import Run, rank_records, read_run

SCRIPT = Path(__file__).parent.parent / "support" / "unusual.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
WATCH = [sys.executable, "-m", "gradsync.cli", "watch", "--name", "seen", "--log-to", "tensorboard,mlflow", "--"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[dict]]:
    """The run, and what the ranks have found."""
    folder = tmp_path_factory.mktemp("unusual")
    words = [*WATCH, *TORCHRUN, str(SCRIPT), str(folder)]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": (folder / "store").as_uri(), "MLFLOW_EXPERIMENT_NAME": "lab"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "The script goes on" not in done.stderr and "Traceback" not in done.stderr
    run = read_run(folder / "runs" / "seen")
    assert isinstance(run, Run) and run.summary
    return run, [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


def test_what_the_script_computes_is_right(seen):
    for rank, found in enumerate(seen[1]):
        assert found["sum"] == [2.0] * 5 and found["exchanged"] == [1.0 - rank] * 3
        assert found["objects"] == [{"rank": 0}, {"rank": 1}]
        assert found["same"]


def test_a_hard_exit_ends_a_record_as_any_other(seen):
    assert seen[0].summary.status == "completed" and seen[0].summary.steps == 8


def test_a_hook_of_the_scripts_own_is_kept_and_told_and_so_is_a_subgroup(seen):
    assert seen[0].summary.remarks == [OWN_HOOK, OF_A_SUBGROUP]


def test_collectives_have_the_same_numbers_on_both_ranks(seen):
    """Also after rank 0 has made a test, and with a subgroup, objects and messages in the background."""
    first, other = (record.steps for record in rank_records(seen[0].folder, 2))
    ours, theirs = numbered(first), numbered(other)
    shared = ours.keys() & theirs.keys()
    assert len(shared) > 8 * 4 and {number: ours[number] for number in shared} == {
        number: theirs[number] for number in shared
    }
    assert "barrier" in set(theirs.values()) and "barrier" not in set(ours.values())  # it belongs to rank 0's test
    found = {operation for operation, *_ in first[1]["collectives"]}
    assert {"in a subgroup", "send", "receive"} <= found


def numbered(steps) -> dict[int, str]:
    """number -> operation"""
    found = {}
    for row in steps:
        counted = [operation for operation, *_ in row["collectives"] if operation not in POINT_TO_POINT]
        found |= {row["first_collective"] + place: operation for place, operation in enumerate(counted)}
    return found


def test_every_message_ends_within_its_step(seen):
    for record in rank_records(seen[0].folder, 2):
        for row in record.steps:
            for _, _, _, _, start, end, _ in row["collectives"]:
                assert start <= end <= row["seconds"] + 1e-5


def test_it_is_logged_to_two_trackers_at_once(seen, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    mlflow = pytest.importorskip("mlflow")
    events = accumulator.EventAccumulator(str(seen[0].folder / "tensorboard" / "rank-0")).Reload()
    client = mlflow.MlflowClient((seen[0].folder.parents[1] / "store").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("lab").experiment_id])
    assert (run.info.run_name, run.info.status) == ("seen", "FINISHED")
    recorded = [row["step"] for row in seen[0].steps()]
    for name in ("train/seconds_per_step", "ledger/wire_ms"):
        assert [event.step for event in events.Scalars(name)] == recorded
        assert [point.step for point in client.get_metric_history(run.info.run_id, name)] == recorded
