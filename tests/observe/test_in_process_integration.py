"""One process: a line at the top of a script, and what it does to the script's end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradsync.record import Run, read_run

SCRIPT = """
import gradsync
gradsync.watch(out="kept", name="mine", log_to="tensorboard")
gradsync.watch()  # a cell of a notebook that runs twice
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
other = nn.Linear(2, 2)
optimizer, second = torch.optim.AdamW(net.parameters()), torch.optim.SGD(other.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1000)
loader = DataLoader(TensorDataset(torch.randn(12, 4), torch.randint(0, 2, (12,))), batch_size=3)
for epoch in range(3):
    for number, (x, y) in enumerate(loader):
        loss = 10 * nn.CrossEntropyLoss()(other(net(x)), y)
        scaler.scale(loss).backward()
        if number % 2:  # two batches are accumulated
            scaler.step(optimizer)
            scaler.step(second)
            scaler.update()
            net.zero_grad(), other.zero_grad()
    with torch.no_grad():
        [net(x) for x, _ in loader]
torch.save(net, "net.pt")  # nothing of ours is in it
print(type(torch.load("net.pt", weights_only=False)).__name__, scaler.get_scale() < 2.0**127)
raise ValueError("enough")
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.py").write_text(SCRIPT)
    words = [sys.executable, "own.py"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=100), folder


def test_the_run_has_every_step_and_the_exception(done):
    """Steps that GradScaler skipped as well, two batches in each; an epoch for each pass over the training data."""
    run = read_run(done[1] / "kept" / "mine")
    assert isinstance(run, Run) and run.summary and run.summary.error
    assert run.summary.steps == 6 and run.summary.strategy == "local" and run.summary.model == "Sequential"
    assert [row["epoch"] for row in run.steps()] == [1, 1, 2, 2, 3, 3]
    assert {row["samples"] for row in run.steps()} == {6}
    assert (run.summary.error.type, run.summary.error.message) == ("ValueError", "enough")
    assert list(run.folder.glob("tensorboard/rank-0/events.*"))
    assert sum(run.summary.ledger.values()) == pytest.approx(run.summary.seconds_per_step, rel=0.02)


def test_the_script_prints_and_ends_as_it_would(done):
    process, folder = done
    assert process.returncode == 1
    assert process.stdout.startswith("Sequential True\n") and "Sequential on own.py" in process.stdout
    assert 'raise ValueError("enough")' in process.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["kept", "net.pt", "own.py"]


def test_a_script_that_dies_at_import_is_told_apart(tmp_path: Path):
    words = [sys.executable, "-m", "gradsync.cli", "watch", "--log-to", "tensorboard", "--"]
    words += [sys.executable, "-c", "import torch, nosuchmodule"]
    process = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert process.returncode == 1
    assert "ModuleNotFoundError" in process.stderr
    assert "torch was imported by 1 process, but no optimizer of torch.optim made a step" in process.stderr
    assert list((tmp_path / "runs").iterdir()) == []
