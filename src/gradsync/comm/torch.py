"""Collectives over torch.distributed: gloo on CPUs, NCCL on GPUs.

Every tensor handed in is dense memory: it travels as one flat block, whatever its strides (channels-last
gradients are not contiguous). With one process nothing is called at all.

Each collective is stamped when this rank arrives and when it is over, with the bytes this rank handed in and took
out and what they were (``kind``). Nothing more is sent for that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from gradsync.meter.recorder import Stopwatch

Kind = Literal["gradients", "parameters", "buffers", "control"]


class TorchComm:
    """One rank's end of the process group. ``link_delay``: seconds every message of this rank leaves late."""

    def __init__(self, rank: int = 0, size: int = 1, meter: Stopwatch | None = None, link_delay: float = 0.0) -> None:
        self.rank = rank
        self.size = size
        self.meter = meter or Stopwatch()
        self._link_delay = link_delay
        self._slow_link = ThreadPoolExecutor(1, "slow-link") if link_delay else None

    def all_reduce(self, tensor: Tensor, kind: Kind = "gradients") -> None:
        """In place: the sum over all ranks, on every rank."""
        if self.size > 1:
            with self._stamped("all_reduce", kind, sent=tensor.nbytes, received=tensor.nbytes):
                dist.all_reduce(flat(tensor))

    def all_reduce_later(self, tensor: Tensor, kind: Kind = "gradients") -> Future[Tensor]:
        """The same, while this thread goes on. The future holds the tensor."""
        call = self.meter.start("all_reduce", kind, tensor.nbytes, tensor.nbytes, overlapped=True)
        ends_on_host = dist.get_backend() == "gloo"

        def done(_: Future[list[Tensor]]) -> Tensor:
            self.meter.finish(call, on_host=ends_on_host)
            return tensor

        if self._slow_link is None:
            return dist.all_reduce(flat(tensor), async_op=True).get_future().then(done)
        late: Future[list[Tensor]] = Future()

        def send_late() -> None:
            time.sleep(self._link_delay)
            dist.all_reduce(flat(tensor))
            late.set_result([tensor])

        self._slow_link.submit(send_late)
        return late.then(done)

    def broadcast(self, tensor: Tensor, source: int = 0, kind: Kind = "parameters") -> None:
        """In place: what ``source`` holds, on every rank."""
        if self.size > 1:
            mine = self.rank == source
            with self._stamped("broadcast", kind, sent=tensor.nbytes * mine, received=tensor.nbytes * (not mine)):
                dist.broadcast(flat(tensor), src=source)

    def gather(
        self, tensor: Tensor, into: Sequence[Tensor] | None, target: int = 0, kind: Kind = "gradients"
    ) -> None:
        """Rank r's tensor lands in ``into[r]`` on ``target``; the other ranks pass None."""
        if self.size > 1:
            sent, received = (0, tensor.nbytes * (self.size - 1)) if into is not None else (tensor.nbytes, 0)
            with self._stamped("gather", kind, sent, received):
                dist.gather(flat(tensor), [flat(item) for item in into] if into is not None else None, dst=target)

    def scatter(
        self, tensor: Tensor, parts: Sequence[Tensor] | None, source: int = 0, kind: Kind = "gradients"
    ) -> None:
        """In place: rank r receives ``parts[r]`` of ``source``; the other ranks pass None."""
        if self.size > 1:
            sent, received = (tensor.nbytes * (self.size - 1), 0) if parts is not None else (0, tensor.nbytes)
            with self._stamped("scatter", kind, sent, received):
                dist.scatter(flat(tensor), [flat(item) for item in parts] if parts is not None else None, src=source)

    def send(self, tensor: Tensor, target: int, kind: Kind = "control") -> None:
        with self._stamped("send", kind, sent=tensor.nbytes, received=0):
            dist.send(tensor, target)

    def receive(self, tensor: Tensor, source: int, kind: Kind = "control") -> None:
        with self._stamped("receive", kind, sent=0, received=tensor.nbytes):
            dist.recv(tensor, source)

    def carrier(self, device: torch.device) -> torch.device:
        """Where a small message must lie to be sent: NCCL takes it from the GPU, gloo sooner from the host."""
        return device if self.size > 1 and dist.get_backend() == "nccl" else torch.device("cpu")

    @contextmanager
    def _stamped(self, operation: str, kind: Kind, sent: int, received: int) -> Iterator[None]:
        call = self.meter.start(operation, kind, sent, received)
        if self._link_delay:
            time.sleep(self._link_delay)
        yield
        self.meter.finish(call)


def flat(tensor: Tensor) -> Tensor:
    """The memory of a dense tensor as one dimension, without a copy."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    assert tensor.numel() == 1 + sum(
        (n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ), "only dense tensors can travel without a copy"
    return torch.as_strided(tensor, (tensor.numel(),), (1,))
