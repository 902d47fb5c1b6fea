"""Parameter servers without processes: what they do with gradients, and how parameters are divided among them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gradsync.comm import LostPeer
from gradsync.errors import InputError
from gradsync.strategies.server.parameter_server import shards
from gradsync.strategies.server.server import AsyncServer, Server, SyncServer

START, RATE = 10.0, 0.5


def made(kind: type[Server], workers: int, **options: Any) -> tuple[Server, list[dict]]:
    """A server of one parameter with three numbers, all 10, and plain sgd; and what it notes."""
    parameter = nn.Parameter(torch.full((3,), START))
    server = kind([parameter], torch.optim.SGD([parameter], RATE), workers, **options)
    notes: list[dict] = []
    server.note = lambda kind, **values: notes.append({"kind": kind, **values})
    return server, notes


def synchronous(workers: int, aggregate: int | None = None, combine: str = "mean", updates: int = 99) -> Any:
    return made(SyncServer, workers, aggregate=aggregate or workers, combine=combine, updates=updates)


def asynchronous(workers: int, max_staleness: int | None = None, lr_by_staleness: bool = False) -> Any:
    return made(AsyncServer, workers, max_staleness=max_staleness, lr_by_staleness=lr_by_staleness)


def push(server: Server, worker: int, gradient: float, version: int = 0) -> Any:
    server.inbox(worker).fill_(gradient)
    return server.push(worker, version)


@pytest.mark.parametrize(("combine", "value"), [("mean", START - RATE * 3), ("sum", START - RATE * 6)])
def test_one_update_when_all_gradients_have_come(combine: str, value: float):
    server, notes = synchronous(2, combine=combine, updates=1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(push, server, 0, 2.0)
        with pytest.raises(TimeoutError):
            first.result(0.1)
        second = pool.submit(push, server, 1, 4.0)
        replies = [first.result(10), second.result(10)]
    for reply in replies:
        assert (reply.version, reply.finished) == (1, True)
        assert reply.parameters.tolist() == [value] * 3
    assert sorted((row["worker"], row["applied"], row["staleness"]) for row in notes) == [(0, True, 0), (1, True, 0)]


def test_late_gradients_of_backup_workers_are_dropped_and_counted():
    server, notes = synchronous(3, aggregate=2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda worker: push(server, worker, 1.0), (0, 1)))
    late = push(server, 2, 100.0)
    assert late.version == 1
    assert late.parameters.tolist() == [START - RATE] * 3, "its gradient left no trace"
    assert notes[-1]["worker"] == 2
    assert (notes[-1]["applied"], notes[-1]["staleness"]) == (False, 1)


def test_after_the_last_update_nobody_waits_for_anybody():
    """Of several servers one may have its last update before another: its workers still come to it."""
    server, _ = synchronous(3, aggregate=2, updates=1)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda worker: push(server, worker, 1.0), (0, 1)))
    again = push(server, 0, 1.0, version=1)
    assert (again.version, again.finished) == (1, True)


def test_a_run_goes_on_without_a_lost_worker_as_long_as_enough_are_left():
    server, _ = synchronous(3, aggregate=2)
    server.leave(2)
    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda worker: push(server, worker, 1.0), (0, 1)))
    assert [reply.version for reply in replies] == [1, 1]


def test_with_too_few_left_those_who_wait_are_told():
    server, _ = synchronous(2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(push, server, 0, 1.0)
        server.leave(1)
        with pytest.raises(LostPeer, match="1 of 2 workers are left, but an update needs 2 gradients"):
            waiting.result(10)


def test_asynchronously_every_gradient_is_an_update_and_its_staleness_is_noted():
    server, notes = asynchronous(3)
    for worker, version in ((0, 0), (1, 0), (2, 0), (0, 1)):
        push(server, worker, 1.0, version)
    assert server.version == 4
    assert [row["staleness"] for row in notes] == [0, 1, 2, 2]
    assert server.parameters.tolist() == [START - 4 * RATE] * 3


def test_gradients_that_are_too_stale_are_dropped():
    server, notes = asynchronous(3, max_staleness=1)
    replies = [push(server, worker, 1.0) for worker in range(3)]
    assert [row["applied"] for row in notes] == [True, True, False]
    assert [reply.version for reply in replies] == [1, 2, 2]


def test_the_step_is_divided_by_the_staleness():
    parameter = nn.Parameter(torch.full((3,), START))
    optimizer = torch.optim.SGD([parameter], RATE)
    optimizer.register_step_pre_hook(lambda item, *_: item.param_groups[0].update(lr=RATE))  # as optim.make does
    server = AsyncServer([parameter], optimizer, 4, max_staleness=None, lr_by_staleness=True)
    values = [push(server, worker, 1.0).parameters[0].item() for worker in range(4)]
    steps = [before - after for before, after in zip([START, *values], values, strict=False)]
    assert steps == pytest.approx([RATE, RATE, RATE / 2, RATE / 3], rel=1e-5)


def test_a_reply_does_not_change_while_it_is_on_its_way():
    server, _ = asynchronous(2)
    reply = push(server, 0, 1.0)
    before = reply.parameters.clone()
    push(server, 1, 1.0)
    assert torch.equal(reply.parameters, before)


@given(sizes=st.lists(st.integers(1, 500), min_size=1, max_size=30), count=st.integers(1, 6))
def test_every_parameter_is_in_one_shard_and_shards_differ_by_one_parameter_at_most(sizes: list[int], count: int):
    parameters = [nn.Parameter(torch.empty(size)) for size in sizes]
    if count > len(parameters):
        with pytest.raises(InputError, match=f"{count} servers cannot divide {len(parameters)} parameters"):
            shards(parameters, count)
        return
    parts = shards(parameters, count)
    places = [[next(i for i, p in enumerate(parameters) if p is item) for item in part] for part in parts]
    assert sorted(place for part in places for place in part) == list(range(len(parameters)))
    assert all(part == sorted(part) and part for part in places)
    filled = [sum(sizes[place] for place in part) for part in places]
    assert max(filled) - min(filled) <= max(sizes)
