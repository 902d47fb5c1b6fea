"""Runs from Python, with models, data, optimizers and strategies that are objects of the session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import gradsync
from gradsync.library.runs.run import Runs
from gradsync.record import OBJECTS_FILE, model_file
from gradsync.record.summaries import PARTS

torch.manual_seed(5)
MODEL = nn.Linear(6, 3)
INPUTS, LABELS = torch.rand(24, 6), torch.arange(24) % 3


class Mine(gradsync.Strategy):
    def agree(self) -> None:
        for gradient in self.gradients():
            self.comm.all_reduce(gradient)
            gradient.div_(self.comm.size)


def another_of_that_name(factor: float) -> type[gradsync.Strategy]:
    class Mine(gradsync.Strategy):
        def agree(self) -> None:
            for gradient in self.gradients():
                self.comm.all_reduce(gradient)
                gradient.mul_(factor / self.comm.size)

    return Mine


class Broken(gradsync.Strategy):
    def agree(self) -> None:
        raise RuntimeError("not today")


def make_data() -> tuple[TensorDataset, TensorDataset]:
    return TensorDataset(INPUTS, LABELS), TensorDataset(INPUTS[:6], LABELS[:6])


def plain_sgd(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr)


def summed(outputs: Any, target: Any) -> Any:
    return nn.functional.cross_entropy(outputs, target, reduction="sum") / len(target)


def margin(outputs: Any, target: Any) -> Any:
    return (outputs.max(1).values - outputs.gather(1, target[:, None])[:, 0]).mean()


Sweep = Callable[..., Runs]
OWN = {"loss": summed, "metric": ["accuracy", margin]}
BASE = {
    **OWN,
    "data": make_data,
    "optimizer": plain_sgd,
    "steps": 3,
    "batch_size": 12,
    "save_model": True,
    "threads": 1,
}
STRATEGIES = ["all-reduce", Mine, another_of_that_name(1.0), another_of_that_name(0.5), Broken]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("python")


@pytest.fixture(scope="module")
def sweep(out: Path) -> Sweep:
    """What is in the folder already is not made again."""

    def sweep(strategies: list[Any]) -> Runs:
        base = {**BASE, "model": MODEL, "workers": 2, "out": out}
        return gradsync.sweep(base, strategy=strategies, lr=[0.1], progress=False)

    return sweep


@pytest.fixture(scope="module")
def first(sweep: Sweep) -> Runs:
    return sweep(STRATEGIES[:3])


@pytest.fixture(scope="module")
def runs(sweep: Sweep, first: Runs) -> Runs:
    return sweep(STRATEGIES)


def parameters(run: Any) -> dict[str, torch.Tensor]:
    return torch.load(model_file(run.folder), weights_only=True)


def test_objects_of_the_session_train_in_the_processes_of_the_runs(runs: Runs, out: Path):
    assert [run.status for run in runs] == ["completed"] * 4 + ["failed"]
    base = {**BASE, "model": MODEL, "strategy": "local", "out": out / "alone"}
    whole, half = map(parameters, gradsync.sweep(base, lr=[0.1, 0.05], progress=False))
    assert not torch.allclose(whole["weight"], MODEL.weight)
    for run, expected in zip(runs, (whole, whole, whole, half), strict=False):
        for name, tensor in parameters(run).items():
            assert torch.allclose(tensor, expected[name], rtol=1e-5, atol=1e-7), run


def test_runs_have_the_names_of_their_objects(runs: Runs):
    figures = [run.summary for run in runs]
    assert [item.strategy for item in figures] == ["all-reduce", "Mine", "Mine-2", "Mine-3", "Broken"]
    assert {(item.model, item.data) for item in figures} == {("Linear", "make_data")}
    assert {tuple(item.metrics) for item in figures} == {("accuracy", "margin")}
    assert all(item.test.metrics["margin"] > 0 for item in figures[:-1])
    assert runs[1].folder.name.endswith("Linear-Mine-2w")
    assert runs[1].config["strategy"].startswith("notebook:Mine@")
    assert "not today" in runs[-1].summary.error.message


def test_a_frame_of_runs_has_what_differs_and_every_figure_with_its_unit(runs: Runs):
    frame = runs.frame()
    assert list(frame.columns[:4]) == ["strategy", "workers", "status", "folder"]
    assert list(frame["strategy"]) == ["all-reduce", "Mine", "Mine-2", "Mine-3", "Broken"]
    assert frame["step (s)"][0] == runs[0].summary.seconds_per_step
    assert frame["step (s) ±"][0] == runs[0].summary.seconds_per_step_spread
    assert frame["accuracy (%)"][0] == pytest.approx(runs[0].summary.test.accuracy * 100)
    assert frame["status"][4] == "failed"
    assert list(gradsync.frame(runs[:2])["strategy"]) == ["all-reduce", "Mine"]


def test_a_frame_of_steps_has_the_ledger_of_every_rank(runs: Runs):
    steps = runs[1].steps()
    assert list(zip(steps["rank"], steps["step"], strict=True)) == [
        (rank, step) for rank in (0, 1) for step in (1, 2, 3)
    ]
    assert (steps[list(PARTS)].sum(axis=1) - steps["seconds"]).abs().max() < 1e-6
    assert list(steps["samples"]) == [6] * 6
    assert list(steps["sent_bytes"]) == [21 * 4] * 6  # the payload of the all-reduces: 18 weights and 3 biases
    assert steps["loss"].notna().all()


def test_showing_a_run_never_reads_its_objects(runs: Runs, out: Path):
    for run in runs:
        (run.folder / OBJECTS_FILE).write_bytes(b"not a pickle")
    found = gradsync.load(out / "sweep")
    assert [run.status for run in found] == [run.status for run in runs]
    assert found.folder == runs.folder
    page = found.report(out / "page.html")
    assert "Mine-2" in page.read_text()
    assert found[0].report(out / "run.md").read_text().startswith("# Linear on make")


def test_what_cannot_be_read_is_a_warning_and_does_not_hide_the_others(runs: Runs, out: Path):
    (out / "damaged").mkdir()
    (out / "damaged" / "config.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"its config\.json is not one of gradsync's"):
        found = gradsync.load(out / "damaged", runs[0].folder)
    assert [run.folder for run in found] == [runs[0].folder]


def test_a_run_shows_its_table_and_its_chart_in_a_notebook(runs: Runs):
    for shown in (runs[0]._repr_html_(), runs._repr_html_()):
        assert "<table>" in shown and "data:image/svg+xml;base64," in shown
        assert "<script" not in shown and "http://" not in shown
    assert "not today" in runs._repr_html_()


def test_a_sweep_is_resumed_by_what_its_objects_consist_of(first: Runs, runs: Runs):
    """The third class had the name and the code of the second, but not its factor."""
    assert [run.folder for run in first] == [run.folder for run in runs][:3]
    assert len({run.config["strategy"] for run in runs}) == 5


DEFINE = """
import torch
from gradsync.config.objects import remember
from gradsync import Strategy
def make(factor):
    class Mine(Strategy):
        def agree(self):
            return factor, torch, "one" in {"one", "two", "three"}, self.helper()
        def helper(self):
            return super().agree()
    return Mine

print(*(remember(make(factor), 'Mine', 'strategy') for factor in (1.0, 2.0)))
"""


def test_the_same_text_has_the_same_hash_in_another_session_and_another_closure_has_not(tmp_path: Path):
    def references(name: str, seed: str) -> list[str]:
        file = tmp_path / f"{name}.py"
        file.write_text(DEFINE)
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, str(file)], capture_output=True, text=True, env=environment, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    one, other = references("one", "1"), references("another", "2")
    assert one == other
    assert one[0] != one[1]


def test_a_run_that_fails_raises_its_sentence_and_holds_the_run(tmp_path: Path):
    with pytest.raises(gradsync.RunFailed, match="failed on rank 0: RuntimeError: not today") as raised:
        gradsync.train(**BASE, model=MODEL, strategy=Broken, workers=1, out=tmp_path, progress=False)
    assert raised.value.run.status == "failed"
    assert 'raise RuntimeError("not today")' in str(raised.value)
