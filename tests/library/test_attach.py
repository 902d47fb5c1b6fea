"""gradsync.attach in one process: what it refuses, and how often the process group is left."""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

import gradsync
from gradsync.errors import InputError
from gradsync.library import ending, exits
from gradsync.rank import world


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), 0.1)


@pytest.mark.parametrize(
    ("strategy", "more", "message"),
    [
        ("ps-sync", {}, "ps-sync needs server processes, which `gradsync train --strategy ps-sync` starts"),
        ("ddp", {"replicas": 2}, "replicas is for data-parallel: ddp has as many workers as there are processes"),
        ("local", {"replicas": 2}, "replicas is for data-parallel"),
        ("data-parallel", {"replicas": 0}, "replicas is 0: data-parallel needs at least one"),
        ("all-reduce", {"bucket_mb": 3}, "unknown option of all-reduce 'bucket-mb'"),
    ],
)
def test_what_cannot_be_attached_is_refused(strategy: str, more: dict, message: str):
    with pytest.raises(InputError, match=message):
        gradsync.attach(*parts(), strategy, **more)


def test_a_model_is_attached_once_until_it_is_detached():
    model, optimizer = parts()
    first = gradsync.attach(model, optimizer, "all-reduce")
    with pytest.raises(InputError, match=r"attached already, with AllReduce: .* HINT: first call detach"):
        gradsync.attach(model, optimizer, "bucketed")
    first.detach()
    with gradsync.attach(model, optimizer, "bucketed"):
        pass
    gradsync.attach(model, optimizer, "all-reduce").detach()


def test_an_optimizer_of_another_model_is_refused():
    (model, _), (_, other) = parts(), parts()
    with pytest.raises(InputError, match="none of the model's parameters"):
        gradsync.attach(model, other)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """A process group of this process alone, which ``attach`` takes for one it has joined; what happens at exit."""
    at_exit: list[Callable[[], None]] = []

    def join(*_: object) -> bool:
        if dist.is_initialized():
            return False
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        return True

    monkeypatch.setattr(world, "join", join)
    monkeypatch.setattr(atexit, "register", at_exit.append)
    ending.leave_at_exit.cache_clear()
    yield at_exit
    ending.leave_at_exit.cache_clear()
    world.leave()


def test_with_two_models_attached_the_group_is_left_once_at_exit(group: list[Callable[[], None]]):
    syncs = [gradsync.attach(*parts(), "bucketed"), gradsync.attach(*parts(), "ddp")]
    detached: list[object] = []
    for sync in syncs:
        sync.strategy.on_detach(lambda sync=sync: detached.append(sync))
    assert len(group) == 1
    group[0]()
    assert not dist.is_initialized()
    assert len(detached) == len(syncs)
    gradsync.attach(*parts(), "ddp")  # joins anew, and is left by the same registration
    assert dist.is_initialized()
    assert len(group) == 1


def test_a_group_that_was_joined_is_left_although_its_record_was_refused(
    group: list[Callable[[], None]], tmp_path: Path
):
    (tmp_path / "other").touch()
    with pytest.raises(InputError, match="is not empty"):
        gradsync.attach(*parts(), "ddp", record=tmp_path)
    gradsync.attach(*parts(), "ddp", record=tmp_path / "mine", report=False)  # it finds the group there
    assert group.count(ending.leave) == 1
    ending.leave()
    assert not dist.is_initialized()


def test_the_ways_in_which_a_script_ends_are_given_back(tmp_path: Path):
    """sys.exit as long as anything is attached; the hook and the signal as long as a record is open."""
    exits.stop_all()  # of models that other tests have left attached
    before = ways()
    other = gradsync.attach(*parts(), "all-reduce")
    assert ways()[1:] == before[1:]
    for number in range(2):
        with gradsync.attach(*parts(), "all-reduce", record=tmp_path / str(number), report=False):
            assert all(now is not then for now, then in zip(ways(), before, strict=True))
        assert ways()[1:] == before[1:]
    other.detach()
    assert ways() == before


def ways() -> list[object]:
    return [sys.exit, sys.excepthook, signal.getsignal(signal.SIGTERM)]
