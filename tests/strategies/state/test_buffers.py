"""Buffers in a step for which only some ranks have a batch; without processes."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor, nn

from gradsync.comm import TorchComm
from gradsync.config import Buffers
from gradsync.strategies.state.buffers import BufferSync


class Other(TorchComm):
    """One of three ranks, which sees what the other two together send."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, 3)
        self.sources: list[int] = []
        self.sent: list[float] = []

    def broadcast(self, tensor: Tensor, source: int = 0, kind: Any = "parameters") -> None:
        self.sources.append(source)

    def all_reduce(self, tensor: Tensor, kind: Any = "gradients") -> None:
        self.sent.append(float(tensor.sum()))
        tensor.add_(6.0)


def synchronized(mode: Buffers, rank: int, present: list[int] | None) -> tuple[Other, float]:
    layer, comm = nn.BatchNorm1d(1), Other(rank)
    buffers = BufferSync(layer, comm, mode)
    buffers.present = present or buffers.present
    buffers()
    return comm, layer.running_var.item()


@pytest.mark.parametrize(("present", "source"), [(None, 0), ([0, 2], 0), ([1, 2], 1)])
def test_they_are_those_of_the_first_rank_with_a_batch(present: list[int] | None, source: int):
    assert synchronized("broadcast", 2, present)[0].sources == [source]


@pytest.mark.parametrize(("present", "own", "mean"), [(None, 1.0, 7 / 3), ([1, 2], 1.0, 7 / 2), ([0, 1], 0.0, 6 / 2)])
def test_the_mean_is_that_over_the_ranks_with_a_batch(present: list[int] | None, own: float, mean: float):
    comm, variance = synchronized("average", 2, present)
    assert comm.sent == [own]  # the running mean is zero
    assert variance == pytest.approx(mean)


def test_local_buffers_are_not_sent():
    comm, _ = synchronized("local", 0, [1])
    assert not comm.sources and not comm.sent
