"""One process: a line at the top of a script, and what it does to the script's end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from gradsync.errors import InputError
from gradsync.observe import in_process
from gradsync.rank.world import World
from gradsync.record import Run, read_run

SCRIPT = """
import multiprocessing
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
child = multiprocessing.get_context("fork").Process(target=int)  # its end is not that of the run
child.start(), child.join()
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


RANKS = Path(__file__).parent.parent / "support" / "scripts" / "watched_ranks.py"
STEPS, BATCH = 12, 3  # that it makes


@pytest.mark.parametrize(("how", "status"), [("completes", "completed"), ("fails", "failed")])
def test_all_ranks_of_a_script_are_recorded_however_it_ends(tmp_path: Path, how: str, status: str):
    """Where rank 1 fails, torchrun ends rank 0, which writes the summary, with SIGTERM."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(RANKS), how]
    process = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    run = read_run(tmp_path / "kept" / "mine")
    assert isinstance(run, Run) and run.summary, process.stderr
    assert (run.status, run.summary.strategy, run.summary.world_size) == (status, "ddp", 2)
    assert len(run.steps(0)) == len(run.steps(1)) == STEPS
    assert run.summary.batch_size == 2 * BATCH and run.summary.precision == "bf16"
    if how == "completes":
        assert process.returncode == 0 and process.stdout.count("the end of rank") == 2
        assert process.stdout.count("the ledger of a step, rank by rank") == 1
    else:
        assert process.returncode == 1
        assert run.summary.error and run.summary.error.rank == 1 and run.summary.error.message == "deliberate"
        assert "exitcode  : -15" in process.stderr  # of rank 0, as without us
        assert "rank 1: ValueError: deliberate" in process.stderr


def test_a_rank_does_not_wait_for_ever_for_rank_0_to_choose_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Which it does not if it has given up, or does not train."""
    monkeypatch.setattr(in_process, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    store = dist.HashStore()
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    with pytest.raises(InputError, match=r"rank 1 is not recorded, as rank 0, .* recorded no step within 0.05 s"):
        in_process.agreed_folder(World(1, 2), tmp_path, None)
    chosen = in_process.agreed_folder(World(0, 2), tmp_path, "mine")
    assert in_process.agreed_folder(World(1, 2), tmp_path, None) == chosen == tmp_path / "mine"
