"""Attaching, detaching and attaching again without processes; with two of them in test_own_loop_integration.py."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.futures import Future

from gradsync.comm import Comm
from gradsync.meter.recorder import Recorder
from gradsync.strategies import STRATEGIES, Roles, ServerStrategy, Strategy, attached, construct

SERVERS = [name for name, kind in STRATEGIES.items() if kind.has_servers]
ALONE = [name for name, kind in STRATEGIES.items() if not kind.has_servers]
AMONG_TWINS = ["gather-scatter", "reduce-broadcast", "all-reduce", "bucketed", "none"]


class Twins(Comm):
    """The first of two ranks of which both compute the same: a sum is twice what this one has."""

    def __init__(self) -> None:
        super().__init__(0, 2, Recorder())

    def _all_reduce(self, block: Tensor) -> None:
        block.mul_(2)

    def _all_reduce_later(self, block: Tensor) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(block.mul_(2))
        return future

    def _reduce(self, block: Tensor, target: int) -> None:
        block.mul_(2)

    def _broadcast(self, block: Tensor, source: int) -> None: ...

    def _gather(self, block: Tensor, into: Tensor | None, target: int) -> None:
        assert into is not None
        into.copy_(block.expand_as(into))

    def _scatter(self, block: Tensor, parts: list[Tensor] | None, source: int) -> None:
        assert parts is not None
        block.copy_(parts[0])

    def _never(self, *_: object) -> None:
        raise AssertionError("no strategy in these tests calls it")

    _reduce_scatter = _all_gather = _exchange = _send = _receive = _never


class OneRank(Twins):
    def __init__(self) -> None:
        super().__init__()
        self.size = 1


def model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()
    return model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def batch(step: int) -> Tensor:
    return torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(step))


def train(sync: Strategy, steps: Sequence[int]) -> list[int]:
    """The number of collectives of each step."""
    counts = []
    for step in steps:
        sync.comm.meter.take_calls()
        sync(batch(step)).square().sum().backward()
        sync.step()
        counts.append(len(sync.comm.meter.take_calls()))
    return counts


def train_bare(model: nn.Module, optimizer: torch.optim.Optimizer, steps: Sequence[int]) -> None:
    for step in steps:
        model(batch(step)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def state(model: nn.Module) -> list[list[float]]:
    return [value.flatten().tolist() for value in model.state_dict().values()]


def clone(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
    """The same state, never attached to anything."""
    other, its_optimizer = model_and_optimizer()
    other.load_state_dict(model.state_dict())
    its_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return other, its_optimizer


def hooks_on(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    count = len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)
    for parameter in model.parameters():
        count += len(parameter._post_accumulate_grad_hooks or ()) + len(parameter._backward_hooks or ())
    for module in model.modules():
        count += len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._backward_hooks)
    return count


CASES = [
    *((name, Twins, sync_bn) for name in AMONG_TWINS for sync_bn in (False, True)),
    *((name, OneRank, False) for name in ALONE),
]


@pytest.mark.parametrize(("name", "comm", "sync_bn"), CASES)
def test_attached_again_it_is_as_attached_afresh_and_detached_as_if_it_had_never_been(
    name: str, comm: Callable[[], Comm], sync_bn: bool
):
    model, optimizer = model_and_optimizer()
    kinds = [type(module) for module in model.modules()]
    sync = construct(name, comm(), None, {}, Roles(workers=2))
    first = train(attached(sync, model, optimizer, sync_bn), [0, 1])
    sync.detach()
    sync.detach()

    assert sync.forward is model
    assert hooks_on(model, optimizer) == 0
    assert [type(module) for module in model.modules()] == kinds
    bare = clone(model, optimizer)
    train_bare(model, optimizer, [2, 3])
    train_bare(*bare, [2, 3])
    assert state(model) == state(bare[0])
    assert sync.comm.meter.take_calls() == []

    fresh = clone(model, optimizer)
    again = train(attached(sync, model, optimizer, sync_bn), [4, 5])
    other = construct(name, comm(), None, {}, Roles(workers=2))
    assert again == train(attached(other, *fresh, sync_bn), [4, 5]) == first
    assert state(model) == state(fresh[0])


@pytest.mark.parametrize("second", AMONG_TWINS)
@pytest.mark.parametrize("first", AMONG_TWINS)
def test_a_model_has_one_strategy_at_a_time(first: str, second: str):
    """The first is not detached by hand, as in a notebook whose cell runs twice."""
    model, optimizer = model_and_optimizer()
    fresh = model_and_optimizer()
    before = construct(first, Twins(), None, {})
    attached(before, model, optimizer, sync_bn=True)
    sync = construct(second, Twins(), None, {})
    counts = train(attached(sync, model, optimizer, sync_bn=True), [0, 1])
    assert before.comm.meter.take_calls()[-1].kind != "gradients"
    assert counts == train(attached(construct(second, Twins(), None, {}), *fresh, sync_bn=True), [0, 1])
    assert state(model) == state(fresh[0])


def test_a_strategy_that_moved_to_another_model_is_not_detached_from_it():
    sync = construct("bucketed", Twins(), None, {})
    old, new = model_and_optimizer(), model_and_optimizer()
    attached(sync, *old)
    attached(sync, *new)
    attached(construct("all-reduce", Twins(), None, {}), *old)
    assert hooks_on(*old) == 0
    assert hooks_on(*new) == len(list(new[0].parameters()))


def test_bucketed_detached_between_backward_and_step_leaves_this_workers_gradients():
    model, optimizer = model_and_optimizer()
    alone, _ = model_and_optimizer()
    sync = attached(construct("bucketed", Twins(), None, {}), model, optimizer)
    sync(batch(0)).square().sum().backward()
    sync.detach()
    alone(batch(0)).square().sum().backward()
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_layers_that_stand_at_two_places_are_synchronized_at_both_and_given_back():
    shared = nn.BatchNorm1d(3)
    model = nn.ModuleDict({"one": shared, "two": shared, "deeper": nn.Sequential(shared)})
    sync = attached(construct("all-reduce", Twins(), None, {}), model, torch.optim.SGD(model.parameters(), 0.1), True)
    assert model["one"] is model["two"] is model["deeper"][0] is not shared
    model["one"](torch.randn(4, 3))
    sync.detach()
    assert model["one"] is model["two"] is model["deeper"][0] is shared
    assert shared.num_batches_tracked == 1


def test_a_model_that_is_a_batchnorm_layer_itself_is_given_back():
    model = nn.BatchNorm1d(3)
    sync = attached(construct("all-reduce", Twins(), None, {}), model, torch.optim.SGD(model.parameters(), 0.1), True)
    assert sync.forward is not model
    sync(torch.randn(4, 3))
    sync.detach()
    assert sync.forward is sync.model is model
    assert model.num_batches_tracked == 1


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_detached_leaves_what_it_has_come_to_in_the_given_model(name: str):
    """One process that is worker and server, as with --server-placement shared."""
    options = {"lr-by-staleness": "true"} if name == "ps-async" else {}
    model, optimizer = model_and_optimizer()
    local = model_and_optimizer()
    sync = construct(name, OneRank(), None, options, Roles(workers=1, servers=(0,), updates=2))
    assert isinstance(sync, ServerStrategy)
    for first in (0, 2):
        attached(sync, model, optimizer)
        sync.begin(lambda *_, **__: None)
        train(sync, [first, first + 1])
        assert sync.step_facts() == {"update": 2}
        assert sync.finished is (name == "ps-sync")
        sync.finish()
        sync.detach()
        train_bare(*local, [first, first + 1])
        assert sync.model is sync.forward is model
        assert hooks_on(model, optimizer) == 0
        assert all(parameter.grad is None for parameter in model.parameters())
        assert state(model) == state(local[0])
