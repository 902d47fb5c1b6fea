"""Collectives over torch.distributed: gloo on CPUs, NCCL on GPUs.

Every tensor handed in is dense memory: it travels as one flat block, whatever its strides (channels-last
gradients are not contiguous). With one process nothing is called at all.

Each collective is stamped when this rank arrives and when it is over, with the bytes this rank handed in and took
out and what they were (``kind``). Nothing more is sent for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from gradsync.meter.recorder import Stopwatch

Kind = Literal["gradients", "parameters", "buffers", "control"]


class TorchComm:
    """One rank's end of the process group."""

    def __init__(self, rank: int = 0, size: int = 1, meter: Stopwatch | None = None) -> None:
        self.rank = rank
        self.size = size
        self.meter = meter or Stopwatch()
        self._slow_link: SlowLink | None = None

    def all_reduce(self, tensor: Tensor, kind: Kind = "gradients") -> None:
        """In place: the sum over all ranks, on every rank."""
        self._call("all_reduce", kind, tensor.nbytes, tensor.nbytes, lambda: dist.all_reduce(flat(tensor)))

    def all_reduce_later(self, tensor: Tensor, kind: Kind = "gradients") -> Future[Tensor]:
        """The same, while this thread goes on. The future holds the tensor."""
        call = self.meter.start("all_reduce", kind, tensor.nbytes, tensor.nbytes, overlapped=True)
        ends_on_host = dist.get_backend() == "gloo"

        def done(reduced: Future[Any]) -> Tensor:
            reduced.value()  # raises if a peer was lost; otherwise training would go on with this rank's own gradient
            self.meter.finish(call, on_host=ends_on_host)
            return tensor

        if self._slow_link:
            return self._slow_link.send(lambda: dist.all_reduce(flat(tensor))).then(done)
        return dist.all_reduce(flat(tensor), async_op=True).get_future().then(done)

    def reduce(self, tensor: Tensor, target: int = 0, kind: Kind = "gradients") -> None:
        """In place: the sum over all ranks, on ``target``; what the others hold afterwards is not defined."""
        sent, received = (0, tensor.nbytes) if self.rank == target else (tensor.nbytes, 0)
        self._call("reduce", kind, sent, received, lambda: dist.reduce(flat(tensor), dst=target))

    def broadcast(self, tensor: Tensor, source: int = 0, kind: Kind = "parameters") -> None:
        """In place: what ``source`` holds, on every rank."""
        sent, received = (tensor.nbytes, 0) if self.rank == source else (0, tensor.nbytes)
        self._call("broadcast", kind, sent, received, lambda: dist.broadcast(flat(tensor), src=source))

    def gather(
        self, tensor: Tensor, into: Sequence[Tensor] | None, target: int = 0, kind: Kind = "gradients"
    ) -> None:
        """Rank r's tensor lands in ``into[r]`` on ``target``; the other ranks pass None."""
        sent, received = (0, tensor.nbytes * (self.size - 1)) if into is not None else (tensor.nbytes, 0)
        rows = [flat(item) for item in into] if into is not None else None
        self._call("gather", kind, sent, received, lambda: dist.gather(flat(tensor), rows, dst=target))

    def scatter(
        self, tensor: Tensor, parts: Sequence[Tensor] | None, source: int = 0, kind: Kind = "gradients"
    ) -> None:
        """In place: rank r receives ``parts[r]`` of ``source``; the other ranks pass None."""
        sent, received = (tensor.nbytes * (self.size - 1), 0) if parts is not None else (0, tensor.nbytes)
        rows = [flat(item) for item in parts] if parts is not None else None
        self._call("scatter", kind, sent, received, lambda: dist.scatter(flat(tensor), rows, src=source))

    def exchange(
        self, outgoing: Tensor, target: int, incoming: Tensor, source: int, kind: Kind = "gradients"
    ) -> None:
        """Send to one rank while receiving from another; every rank does so at the same point of the program."""

        def both() -> None:
            ours, theirs = self._sendable(outgoing), self._sendable(incoming)
            operations = [dist.P2POp(dist.isend, ours, target), dist.P2POp(dist.irecv, theirs, source)]
            for work in dist.batch_isend_irecv(operations):
                work.wait()
            if theirs is not incoming:
                incoming.copy_(theirs)

        self._call("exchange", kind, outgoing.nbytes, incoming.nbytes, both)

    def send(self, tensor: Tensor, target: int, kind: Kind = "control") -> None:
        self._call("send", kind, tensor.nbytes, 0, lambda: dist.send(tensor, target))

    def receive(self, tensor: Tensor, source: int, kind: Kind = "control") -> None:
        self._call("receive", kind, 0, tensor.nbytes, lambda: dist.recv(tensor, source))

    def _sendable(self, tensor: Tensor) -> Tensor:
        """Gloo's collectives take tensors of a GPU; its send and receive do not, and end the process."""
        return tensor.cpu() if tensor.is_cuda and dist.get_backend() == "gloo" else tensor

    def carrier(self, device: torch.device) -> torch.device:
        """Where a small message must lie to be sent: NCCL takes it from the GPU, gloo sooner from the host."""
        return device if self.size > 1 and dist.get_backend() == "nccl" else torch.device("cpu")

    @contextmanager
    def slow_link(self, seconds: float) -> Iterator[None]:
        """While the block runs, every message of this rank leaves so much later. 0: nothing changes."""
        if seconds == 0:
            yield
            return
        self._slow_link = SlowLink(seconds)
        try:
            yield
        finally:
            self._slow_link.close()
            self._slow_link = None

    def _call(self, operation: str, kind: Kind, sent: int, received: int, call: Callable[[], object]) -> None:
        if self.size == 1:
            return
        stamps = self.meter.start(operation, kind, sent, received)
        if self._slow_link:
            self._slow_link.send(call).wait()
        else:
            call()
        self.meter.finish(stamps)


class SlowLink:
    """Sends in the order it was told to, each message after a pause.

    One thread for all: the order of collectives must be the same on every rank.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._thread = ThreadPoolExecutor(1, "slow-link")

    def send(self, call: Callable[[], object]) -> Future[Any]:
        sent: Future[Any] = Future()

        def send_late() -> None:
            time.sleep(self._seconds)
            try:
                call()
            except Exception as error:
                sent.set_exception(error)
            else:
                sent.set_result(None)

        self._thread.submit(send_late)
        return sent

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def flat(tensor: Tensor) -> Tensor:
    """The memory of a dense tensor as one dimension, without a copy."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    assert tensor.numel() == 1 + sum(
        (n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ), "only dense tensors can travel without a copy"
    return torch.as_strided(tensor, (tensor.numel(),), (1,))
