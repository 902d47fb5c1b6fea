"""Tasks of every kind in one process and in two: the same parameters, losses and metrics. Two starts for all of them.

What the data and the functions are is in a folder of the user's, whose files import each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gradsync import launch
from gradsync.cli.main import main
from gradsync.config import RunConfig
from gradsync.exhibit.runs.sections import sections
from gradsync.library.runs.check import check
from gradsync.record import Run
from gradsync.record.folder import model_file

PARTS = """
import torch
from torch import nn
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(22, 5, generator=GENERATOR)
TOKENS = torch.randint(0, 9, (22, 4), generator=GENERATOR)
class Pair(nn.Module):
    def __init__(self): super().__init__(); self.layer = nn.Linear(10, 1)
    def forward(self, first, second): return self.layer(torch.cat((first, second["again"]), 1))
class Seen(nn.Module):
    def __init__(self): super().__init__(); self.layer = nn.Linear(5, 1)
    def forward(self, x): return {"logits": self.layer(x), "compiled": torch.compiler.is_compiling()}
class Tagger(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.embed, self.out = nn.Embedding(9, width), nn.Linear(width, 9)
    def forward(self, tokens): return {"logits": self.out(self.embed(tokens))}
"""
OWN = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from parts import TOKENS, X, Pair, Seen, Tagger

def both(samples): return samples, samples[:7]
def line(): return nn.Linear(5, 1)
def numbers(): return both([(x, x.sum()) for x in X])
def yes_or_no(): return both([(x, x.sum() > 0) for x in X])
def pairs(): return both([(x, {"again": x.double(), "name": "sample"}, x.sum()) for x in X])
def named(): return both([{"tokens": row, "labels": row.flip(0)} for row in TOKENS])
def ragged(): return both([(x, x.sum()) for x in X[:-1]] + [(X[-1, :4], X[0].sum())])
def distance(outputs, target): return (outputs[:, 0] - target).abs().mean()
def largest(outputs, target): return (outputs[:, 0] - target).abs().mean()
def compiled(outputs, target): return outputs["compiled"]
def nothing(outputs, target): pass
def breaks(outputs, target): return {}["missing"]
def nesterov(parameters, lr): return torch.optim.SGD(parameters, lr=lr, momentum=0.5, nesterov=True)
"""
GPT = {"width": "16", "depth": "1", "heads": "2", "context": "8"}
SHARED: dict[str, Any] = {
    **{"batch_size": 6, "epochs": 2, "lr": 0.05, "precision": "fp64", "threads": 1, "save_model": True},
    **{"train_accuracy": True},
}
TASKS: dict[str, dict[str, Any]] = {
    "regression": {"model": "own.py:line", "data": "own.py:numbers", "loss": "mse", "clip_norm": 0.5},
    "yes or no": {"model": "own.py:line", "data": "own.py:yes_or_no", "loss": "bce", "accumulate": 2},
    "tokens": {"model": "own.py:Tagger", "data": "own.py:named", "model_options": {"width": "7"}},
    "own": {
        **{"model": "own.py:Pair", "data": "own.py:pairs", "loss": "own.py:distance", "optimizer": "own.py:nesterov"},
        **{"metric": ("own.py:largest", "rmse"), "loader_processes": 1},
    },
    "compiled": {
        **{"model": "own.py:Seen", "data": "own.py:numbers", "loss": "mse", "metric": ("own.py:compiled",)},
        **{"compile": True, "epochs": 3},
    },
    "nothing": {"model": "own.py:line", "data": "own.py:numbers", "loss": "own.py:distance"},
    "gpt": {"model": "gpt", "model_options": GPT, "data": "text:book.txt", "train_samples": 20, "accumulate": 2},
}
METRICS = {
    **{"regression": ["rmse"], "yes or no": ["accuracy"], "tokens": ["accuracy"], "own": ["largest", "rmse"]},
    **{"compiled": ["compiled"], "nothing": [], "gpt": ["perplexity"]},
}

Found = dict[str, tuple[Run, Run]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tasks")
    (place / "own.py").write_text(OWN)
    (place / "parts.py").write_text(PARTS)
    (place / "book.txt").write_text("to be or not to be, that is the question. " * 12)
    return place


def asked(folder: Path, **settings: Any) -> RunConfig:
    """With the files in this folder."""

    def placed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(placed, value))
        begin = next(
            (each for each in ("own.py", "text:") if isinstance(value, str) and value.startswith(each)), None
        )
        return (
            value
            if begin is None
            else value.replace("own.py", f"{folder}/own.py").replace("text:", f"text:{folder}/")
        )

    given = {name: placed(value) for name, value in (SHARED | settings).items()}
    return RunConfig(**given, out=str(folder / "runs"))


@pytest.fixture(scope="module")
def found(folder: Path) -> Found:
    """Each task in one process, and in two."""
    plan = [asked(folder, **settings) for settings in TASKS.values()]
    plan += [asked(folder, **settings, workers=2, strategy="all-reduce") for settings in TASKS.values()]
    runs = launch.run_in_turn(check(plan))
    assert [(run.folder.name, run.error) for run in runs if run.status != "completed"] == []
    return {name: (runs[n], runs[len(TASKS) + n]) for n, name in enumerate(TASKS)}


@pytest.mark.parametrize("task", TASKS)
def test_two_workers_compute_what_one_does(found: Found, task: str):
    """22 samples in batches of 6: the last one does not split evenly."""
    one, two = found[task]
    alone, shared = (torch.load(model_file(run.folder), weights_only=True) for run in (one, two))
    for name, value in alone.items():
        torch.testing.assert_close(shared[name], value, rtol=1e-9, atol=1e-9)
    assert one.summary and two.summary
    assert one.summary.test and two.summary.test
    assert two.summary.train_loss == pytest.approx(one.summary.train_loss, rel=1e-9)
    assert two.summary.test.loss == pytest.approx(one.summary.test.loss, rel=1e-9)
    assert two.summary.test.metrics == pytest.approx(one.summary.test.metrics, rel=1e-9)
    assert two.summary.train_metrics.keys() == one.summary.train_metrics.keys()
    for name, epochs in one.summary.train_metrics.items():
        assert two.summary.train_metrics[name] == pytest.approx(epochs, rel=1e-9)
    assert one.summary.train_loss[1] < one.summary.train_loss[0]


@pytest.mark.parametrize("task", TASKS)
def test_metrics_are_those_of_the_task_and_no_others(found: Found, task: str, folder: Path):
    run = found[task][1]
    assert run.summary and run.summary.test
    assert run.summary.metrics == list(run.summary.test.metrics) == list(run.summary.train_metrics) == METRICS[task]
    steps = run.steps(1)
    assert all(list(row.get("metrics", {})) == METRICS[task] for row in steps)
    shown = sections([run])
    (table,) = shown[0].exhibits
    columns = [column.name for column in table.columns]  # type: ignore[union-attr]
    kept = [name for name in ("accuracy", "perplexity", "rmse", "largest", "compiled") if name in columns]
    assert kept == sorted(METRICS[task], key=kept.index)
    text = " ".join(shown[0].sentences)
    assert ("accuracy" in text or "%  on the test set" in text) is False or "accuracy" in METRICS[task]
    assert (run.summary.test.accuracy is None) == ("accuracy" not in METRICS[task])
    assert ("tokens" in columns) == (task in ("tokens", "gpt"))
    written = (run.folder / "summary.json").read_text() + (run.folder / "rank-0.jsonl").read_text()
    assert ('"accuracy": 0' in written or '"correct": 0' in written) is False or "accuracy" in METRICS[task]


def test_figures_are_what_they_say(found: Found, folder: Path):
    run = found["regression"][1]
    assert run.summary and run.summary.test and run.summary.test.loss
    assert run.summary.test.metrics["rmse"] == pytest.approx(run.summary.test.loss**0.5)
    gpt = found["gpt"][1].summary
    assert gpt and gpt.test and gpt.test.loss
    assert gpt.test.metrics["perplexity"] == pytest.approx(2.718281828459045**gpt.test.loss)
    assert gpt.positions == 8
    own = found["own"][1].summary
    assert own and own.test
    assert own.test.metrics["largest"] == pytest.approx(own.test.loss), "the same function"
    assert found["compiled"][1].summary.train_metrics == {"compiled": [1.0, 1.0, 1.0]}
    assert (own.loss, own.optimizer) == (f"{folder}/own.py:distance", f"{folder}/own.py:nesterov")


def test_metrics_are_drawn_and_exported_by_their_names(found: Found, tmp_path: Path):
    charts = {item.title for each in sections([found["own"][1]]) for item in each.exhibits if hasattr(item, "kind")}
    assert any(title.startswith("Test largest") for title in charts)
    assert any(title.startswith("Test rmse") for title in charts)
    assert not any("accuracy" in title.lower() for title in charts)


def test_a_failing_metric_or_batch_ends_a_run_with_a_sentence(folder: Path):
    """Both come after the command has looked at the first samples."""
    late = asked(folder, model="own.py:line", data="own.py:ragged", loss="mse", workers=2, eval=False)
    (run,) = launch.run_in_turn(check([late]))
    assert run.error
    assert "these samples cannot be put into a batch of equal sizes: (4, " in run.error.message
    assert (run.error.type, run.error.traceback) == ("InputError", "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--loss own.py:nothing", "must return a tensor of one number, the mean over the samples of the batch: it"),
        ("--loss mse --metric own.py:breaks", "--metric own.py:breaks raised an error:"),
        ("--loss cross-entropy", "--loss mse is for regression, --loss bce for yes or no; or give your own"),
        ("--loss mse --precision fp16 --device cpu", "--precision fp16 needs a GPU: on a CPU use bf16"),
        ("--loss mse --label-smoothing 0.1", "--label-smoothing is for --loss cross-entropy"),
        ("--loss mse --clip-norm 0", "--clip-norm is 0.0: it must be from 1e-08 to 100,000,000"),
        ("--loss mse --columns largest", "unknown column 'largest'"),
        ("--loss mse --clip-norm 1 --workers 2 --strategy ps-sync --servers 2", "Use --servers 1."),
    ],
)
def test_bad_input_is_refused_with_a_sentence(
    folder: Path, words: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main(["train", "--model", "own.py:line", "--data", "own.py:numbers", *words.split()])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "gradsync/" not in said.replace(str(folder), "")
