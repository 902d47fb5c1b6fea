"""Messages over torch.distributed: gloo on CPUs, NCCL on GPUs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from gradsync.comm.base import Comm, LostPeer

# torch 2.13 calls them by new names and warns about the old ones.
reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class TorchComm(Comm):
    """The process group this process has joined (world.join)."""

    transport = "torch"
    _group: dist.ProcessGroup | None = None
    """None: the one that this process has joined."""

    @property
    def _ends_on_host(self) -> bool:  # type: ignore[override]
        return dist.get_backend(self._group) == "gloo"

    def _all_reduce(self, block: Tensor) -> None:
        dist.all_reduce(block, group=self._group)

    def _all_reduce_later(self, block: Tensor) -> Future[Any]:
        return dist.all_reduce(block, group=self._group, async_op=True).get_future()

    def _reduce(self, block: Tensor, target: int) -> None:
        dist.reduce(block, dst=target, group=self._group)

    def _broadcast(self, block: Tensor, source: int) -> None:
        dist.broadcast(block, src=source, group=self._group)

    def _gather(self, block: Tensor, into: Tensor | None, target: int) -> None:
        dist.gather(block, list(into.unbind()) if into is not None else None, dst=target, group=self._group)

    def _scatter(self, block: Tensor, parts: list[Tensor] | None, source: int) -> None:
        dist.scatter(block, parts, src=source, group=self._group)

    def _reduce_scatter(self, rows: Tensor, into: Tensor) -> None:
        """Gloo's is an all-reduce of which each rank keeps its row: twice the bytes a reduce-scatter needs."""
        reduce_scatter(into, rows, group=self._group)

    def _all_gather(self, block: Tensor, into: Tensor) -> None:
        all_gather(into, block, group=self._group)

    def _exchange(self, outgoing: Tensor, target: int, incoming: Tensor, source: int) -> None:
        ours, theirs = self._sendable(outgoing), self._sendable(incoming)
        operations = [
            dist.P2POp(dist.isend, ours, target, group=self._group),
            dist.P2POp(dist.irecv, theirs, source, group=self._group),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        if theirs is not incoming:
            incoming.copy_(theirs)

    def _send(self, tensor: Tensor, target: int, tag: int) -> None:
        with lost_if_it_fails(target):
            dist.send(self._sendable(tensor), target, group=self._group, tag=tag)

    def _receive(self, tensor: Tensor, source: int, tag: int) -> None:
        theirs = self._sendable(tensor)
        with lost_if_it_fails(source):
            dist.recv(theirs, source, group=self._group, tag=tag)
        if theirs is not tensor:
            tensor.copy_(theirs)

    def carrier(self, device: torch.device) -> torch.device:
        """NCCL sends from GPU memory; gloo is faster from host memory."""
        return device if self.size > 1 and dist.get_backend(self._group) == "nccl" else torch.device("cpu")

    def on_host(self) -> Comm:
        other = copy.copy(self)
        if self.size > 1 and dist.get_backend(self._group) == "nccl":
            other._group = host_group(dist.group.WORLD)
        return other

    def _sendable(self, tensor: Tensor) -> Tensor:
        """Gloo's collectives take GPU tensors; its send and receive do not, and would end the process."""
        return tensor.cpu() if tensor.is_cuda and dist.get_backend(self._group) == "gloo" else tensor


@lru_cache(1)  # one for each group that this process joins
def host_group(world: dist.ProcessGroup) -> dist.ProcessGroup:
    """The same ranks, connected by gloo. Every rank calls this at the same point."""
    return dist.new_group(backend="gloo")


@contextmanager
def lost_if_it_fails(peer: int) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostPeer(f"rank {peer} is gone: {error}", peer) from error
