"""Which trackers there are, and what is refused before anything starts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import gradsync
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.live import trackers
from gradsync.record import settings


def test_tensorboard_true_is_the_same_as_log_to_also_in_the_config_of_an_earlier_run():
    assert RunConfig(log_to=("mlflow", "tensorboard"), tensorboard=True).trackers == ("mlflow", "tensorboard")
    earlier = {name: value for name, value in RunConfig().to_dict().items() if name != "log_to"}
    assert settings({**earlier, "tensorboard": True}, RunConfig).trackers == ("tensorboard",)
    assert RunConfig().trackers == ()


def test_an_unknown_tracker_lists_the_known_before_anything_starts(
    cli: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
):
    done = cli("train", "--log-to", "tensorboard,mlfow")
    assert done.returncode == 2
    assert "unknown tracker 'mlfow'. Did you mean mlflow? Known: mlflow, tensorboard, wandb." in done.stderr
    assert not (tmp_path / "runs").exists()


def test_one_that_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trackers, "is_installed", lambda package: False)
    with pytest.raises(InputError, match=r"--log-to wandb needs the package wandb: pip install 'gradsync\[wandb\]'"):
        trackers.check(["wandb"])


def test_a_folder_that_a_tracker_left_behind_is_not_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "left_behind").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not trackers.is_installed("left_behind")
    assert trackers.is_installed("json")


def test_attach_logs_what_it_records_and_nothing_else():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(InputError, match="add record=, the folder to record into"):
        gradsync.attach(model, optimizer, log_to="mlflow")
    with pytest.raises(InputError, match="unknown tracker 'mlfow'"):
        gradsync.attach(model, optimizer, record="never-made", log_to=["mlfow"])
    assert not Path("never-made").exists()
