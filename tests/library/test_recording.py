"""The record of a user's own loop, in one process."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import gradsync
from gradsync.errors import InputError
from gradsync.library.recording import samples_in
from gradsync.library.sync import Sync
from gradsync.record import read_run
from gradsync.strategies import STRATEGIES
from recorded_loop import hooks_of

STEPS, BATCH = 5, 6
ALONE = [name for name, kind in STRATEGIES.items() if not kind.has_servers]
PAUSE = 0.05


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = Net()
    return model, torch.optim.AdamW(model.parameters(), 0.01)


def step(sync: Sync, size: int = BATCH) -> Tensor:
    loss = mse_loss(sync(torch.randn(size, 3)), torch.zeros(size, 1))
    loss.backward()
    sync.step()
    return loss


def rows(folder: Path, kind: str = "step") -> list[dict[str, Any]]:
    every = map(json.loads, (folder / "rank-0.jsonl").read_text().splitlines())
    return [row for row in every if row["kind"] == kind]


def seconds_of(row: dict[str, Any]) -> dict[str, float]:
    """How long each phase was."""
    bounds = [*(start for _, start in row["phases"]), row["seconds"]]
    found: dict[str, float] = {}
    for (name, start), end in zip(row["phases"], bounds[1:], strict=True):
        found[name] = found.get(name, 0.0) + end - start
    return found


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Sync]:
    def attach(**more: Any) -> Sync:
        return gradsync.attach(*parts(), "all-reduce", record=tmp_path / "mine", report=False, **more)

    return attach


def test_a_loop_leaves_a_run_that_can_be_read(recorded: Callable[..., Sync], tmp_path: Path):
    with recorded() as sync:
        for number in range(STEPS):
            sync.log(loss=step(sync), sharpness=number / 2)
    run = read_run(tmp_path / "mine")
    assert run.summary is not None
    assert (run.status, run.summary.model, run.summary.strategy) == ("completed", "Net", "all-reduce")
    assert (run.summary.steps, run.summary.batch_size) == (STEPS, BATCH)
    assert run.asked.optimizer == "adamw" and run.asked.lr == 0.01
    assert [row["metrics"]["sharpness"] for row in run.steps()] == [number / 2 for number in range(STEPS)]
    assert all(row["samples"] == BATCH and row["loss"] > 0 for row in run.steps())
    for row in rows(tmp_path / "mine"):
        assert sum(seconds_of(row).values()) == pytest.approx(row["seconds"], abs=1e-5)


def test_time_between_steps_is_data_and_a_test_belongs_to_no_step(recorded: Callable[..., Sync], tmp_path: Path):
    with recorded() as sync:
        for number in range(STEPS):
            if number == 2:
                time.sleep(PAUSE)
            if number == 4:
                with torch.no_grad():
                    sync(torch.randn(1, 3))
                    time.sleep(PAUSE)
            step(sync)
    data = [seconds_of(row).get("data", 0.0) for row in rows(tmp_path / "mine")]
    assert data[2] > PAUSE
    assert data[4] < PAUSE and rows(tmp_path / "mine")[4]["seconds"] < PAUSE


def test_the_batch_of_a_step_is_that_of_all_its_pieces(recorded: Callable[..., Sync], tmp_path: Path):
    with recorded() as sync:
        for _ in range(STEPS):
            with sync.accumulating():
                mse_loss(sync(torch.randn(2, 3)), torch.zeros(2, 1)).backward()
            step(sync, 4)
    run = read_run(tmp_path / "mine")
    assert run.summary is not None
    assert run.summary.batch_size == 6
    assert {row["samples"] for row in run.steps()} == {6}


@pytest.mark.parametrize(
    ("dtype", "autocast", "precision"),
    [
        (torch.float64, None, "fp64"),
        (torch.bfloat16, None, "bf16"),
        (torch.float16, None, "fp16"),
        (torch.float32, torch.bfloat16, "bf16"),
    ],
)
def test_the_settings_have_the_precision_of_the_forward_pass(
    tmp_path: Path, dtype: torch.dtype, autocast: torch.dtype | None, precision: str
):
    model = Net().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with gradsync.attach(model, optimizer, "local", record=tmp_path / "mine", report=False) as sync:
        for _ in range(STEPS):
            with torch.autocast("cpu", autocast, enabled=autocast is not None):
                loss = sync(torch.randn(BATCH, 3, dtype=dtype)).square().mean()
            loss.backward()
            sync.step()
    run = read_run(tmp_path / "mine")
    assert run.summary is not None
    assert run.asked.precision == run.resolved.precision == run.summary.precision == precision


def test_a_compiled_model_has_the_name_of_its_class(tmp_path: Path):
    model = torch.compile(Net(), backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with gradsync.attach(model, optimizer, "local", record=tmp_path / "mine", report=False):
        pass
    assert read_run(tmp_path / "mine").asked.model == "Net"


def test_what_is_not_logged_is_absent(recorded: Callable[..., Sync], tmp_path: Path):
    with recorded() as sync:
        for _ in range(STEPS):
            step(sync)
    run = read_run(tmp_path / "mine")
    assert run.summary is not None
    assert run.summary.train_loss == [] and run.summary.train_accuracy == [] and run.summary.test is None
    assert all("loss" not in row for row in run.steps())


def test_an_exception_in_the_block_is_in_the_record(recorded: Callable[..., Sync], tmp_path: Path):
    def fail() -> None:
        with recorded() as sync:
            step(sync)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    run = read_run(tmp_path / "mine")
    assert run.status == "failed"
    assert run.error is not None and run.error.type == "ZeroDivisionError"
    assert [row["step"] for row in run.steps()] == [1]


@pytest.mark.parametrize(
    ("code", "status"), [(3, "failed"), ("no data", "failed"), (0, "completed"), (None, "completed")]
)
def test_a_script_that_ends_itself_in_the_block_has_failed_if_its_exit_code_says_so(
    recorded: Callable[..., Sync], tmp_path: Path, code: object, status: str
):
    def leave() -> None:
        with recorded() as sync:
            step(sync)
            sys.exit(code)

    with pytest.raises(SystemExit):
        leave()
    run = read_run(tmp_path / "mine")
    assert run.status == status
    if status == "failed":
        assert run.error is not None and run.error.traceback == ""
        assert re.match(r"the script ended itself with exit code (3$|1: no data$)", run.error.message)


@pytest.mark.parametrize("strategy", ALONE)
def test_nothing_is_left_on_the_model_after_the_block(tmp_path: Path, strategy: str):
    model, optimizer = parts()
    before = hooks_of(model, optimizer)
    with gradsync.attach(model, optimizer, strategy, record=tmp_path / "mine", report=False) as sync:
        step(sync)
    assert hooks_of(model, optimizer) == before
    mse_loss(model(torch.randn(2, 3)), torch.zeros(2, 1)).backward()
    optimizer.step()
    assert len(rows(tmp_path / "mine")) == 1


def test_a_folder_that_holds_another_run_is_refused(recorded: Callable[..., Sync], tmp_path: Path):
    with recorded() as sync:
        step(sync)
    with pytest.raises(InputError, match="is not empty: a run is recorded into a folder of its own"):
        recorded()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot record into .*mine: .*Choose another folder with record="):
        gradsync.attach(*parts(), "local", record=tmp_path / "file" / "mine")


@pytest.mark.parametrize("record", [None, "mine"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss": "low"}, r"sync.log\(loss=...\) must be a number.* it is 'low'"),
        ({"loss": torch.zeros(2)}, r"sync.log\(loss=...\) must be a number"),
        ({"epoch": 0}, r"sync.log\(epoch=0\) must be a whole number from 1"),
        ({"epoch": 1.5}, r"sync.log\(epoch=1.5\) must be a whole number from 1"),
    ],
)
def test_what_cannot_be_logged_is_refused_recorded_or_not(
    tmp_path: Path, record: str | None, values: dict[str, Any], message: str
):
    place = tmp_path / record if record else None
    with gradsync.attach(*parts(), "local", record=place, report=False) as sync:
        step(sync)
        with pytest.raises(InputError, match=message):
            sync.log(**values)


def test_its_tables_are_printed_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with gradsync.attach(*parts(), "all-reduce", record=tmp_path / "mine") as sync:
        for _ in range(STEPS):
            step(sync)
    printed = capsys.readouterr().out
    assert re.search(r"Net on \S+ · global batch 6 · 5 steps", printed)
    assert "The ledger of a step" in printed and str(tmp_path / "mine") in printed.replace("\n", "")


def test_a_loss_that_still_needs_gradients_is_logged_without_a_warning(tmp_path: Path, recwarn: Any):
    with gradsync.attach(*parts(), "local", record=tmp_path / "mine", report=False) as sync:
        sync.log(loss=step(sync))
    assert not [str(warning.message) for warning in recwarn if "scalar" in str(warning.message)]


@pytest.mark.parametrize(
    ("inputs", "count"),
    [
        ([torch.zeros(7, 2)], 7),
        ([{"ids": torch.zeros(3, 5), "mask": torch.zeros(3, 5)}], 3),
        ([torch.tensor(1.0), [torch.zeros(4)]], 4),
        (["words"], None),
    ],
)
def test_the_samples_of_a_batch_of_any_structure(inputs: list[Any], count: int | None):
    assert samples_in(inputs) == count
