"""A user's own loop that is recorded; started by test_recording_integration.py in two processes.

recorded_loop.py FOLDER complete|fails|exits|waits
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gradsync
from gradsync.errors import InputError
from gradsync.library.sync import Sync

EPOCHS, BATCHES, FEWER, BATCH = 2, 12, 9, 16
LATE_SECONDS = 0.02  # rank 1 computes longer
READ_SECONDS = 0.01


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
    return model, torch.optim.SGD(model.parameters(), 0.1)


def batches(count: int, rank: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(rank)
    for _ in range(count):
        time.sleep(READ_SECONDS)
        inputs = torch.randn(BATCH, 64, generator=generator)
        yield inputs, inputs[:, :10].argmax(1)


def epoch(sync: Sync, number: int, count: int = BATCHES) -> None:
    for inputs, labels in sync.batches(batches(count, sync.rank)):
        outputs = sync(inputs)
        if sync.rank == 1:
            time.sleep(LATE_SECONDS)
        loss = cross_entropy(outputs, labels)
        loss.backward()
        sync.step(clip_norm=1.0)
        sync.log(loss=loss, accuracy=(outputs.argmax(1) == labels).float().mean(), epoch=number)


def hooks_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[int]:
    kept = [vars(module) for module in model.modules()] + [vars(optimizer)]
    counts = [len(value) for each in kept for name, value in each.items() if "hooks" in name and value is not None]
    return [*counts, *(len(item._post_accumulate_grad_hooks or {}) for item in model.parameters())]


def complete(folder: Path, strategy: str) -> None:
    model, optimizer = parts()
    before = hooks_of(model, optimizer)
    with gradsync.attach(model, optimizer, strategy, record=folder / strategy) as sync:
        for number in range(1, EPOCHS + 1):
            epoch(sync, number)
            with torch.no_grad():
                time.sleep(0.1)
                sync(torch.randn(BATCH, 64))
    assert hooks_of(model, optimizer) == before


def uneven(folder: Path) -> None:
    with gradsync.attach(*parts(), "all-reduce", record=folder / "uneven", report=False) as sync:
        for number in range(1, EPOCHS + 1):
            epoch(sync, number, FEWER if sync.rank == 1 else BATCHES)


def refused(folder: Path) -> None:
    """A folder that holds another run, and one that cannot be made: on every rank."""
    (folder / "a file").touch()
    for place in (folder / "all-reduce", folder / "a file"):
        try:
            gradsync.attach(*parts(), "all-reduce", record=place)
        except InputError as error:
            print(f"refused: {error}", flush=True)


def fails(folder: Path) -> None:
    sync = gradsync.attach(*parts(), "all-reduce", record=folder / "fails")
    epoch(sync, 1)
    if sync.rank == 1:
        raise ValueError("deliberate")
    epoch(sync, 2)


def exits(folder: Path) -> None:
    sync = gradsync.attach(*parts(), "all-reduce", record=folder / "exits")
    epoch(sync, 1)
    if sync.rank == 1:
        sys.exit(3)
    epoch(sync, 2)


def waits(folder: Path) -> None:
    sync = gradsync.attach(*parts(), "all-reduce", record=folder / "waits")
    epoch(sync, 1)
    print("waiting", flush=True)
    time.sleep(100)


def main(folder: Path, how: str) -> None:
    if how == "complete":
        for strategy in ("all-reduce", "bucketed", "ddp"):
            complete(folder, strategy)
        uneven(folder)
        refused(folder)
    else:
        {"fails": fails, "exits": exits, "waits": waits}[how](folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
