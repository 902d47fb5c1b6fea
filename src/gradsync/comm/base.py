"""The communication operations of a rank, whatever carries the messages.

Every tensor passed in is dense in memory: it travels as one flat block, whatever its strides (channels-last
gradients are not contiguous). With one process nothing is called at all.

Each call is stamped when this rank arrives and when the call ends, with the bytes this rank sent and received as
payload and what they were (``kind``). No message is added for that.
"""

from __future__ import annotations

import copy
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Literal

import torch
from torch import Tensor
from torch.futures import Future

from gradsync.meter.recorder import Stopwatch

Kind = Literal["gradients", "parameters", "buffers", "control"]


class LostPeer(RuntimeError):
    """A message could not be sent or received because the other end is gone."""

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__(message)
        self.rank = rank


class Comm(ABC):
    """One rank's end of the group. A transport is a subclass that implements the methods with an underscore."""

    transport = "none"

    def __init__(self, rank: int = 0, size: int = 1, meter: Stopwatch | None = None) -> None:
        self.rank = rank
        self.size = size
        self.meter = meter or Stopwatch()
        self._slow_link: Background | None = None

    def all_reduce(self, tensor: Tensor, kind: Kind = "gradients") -> None:
        """In place: the sum over all ranks, on every rank."""
        self._call("all_reduce", kind, tensor.nbytes, tensor.nbytes, lambda: self._all_reduce(flat(tensor)))

    def all_reduce_later(self, tensor: Tensor, kind: Kind = "gradients") -> Future[Tensor]:
        """The same in the background, while this thread continues. The future holds the tensor."""
        call = self.meter.start("all_reduce", kind, tensor.nbytes, tensor.nbytes, overlapped=True)

        def done(reduced: Future[Any]) -> Tensor:
            reduced.value()  # raises if a peer was lost; otherwise training would go on with this rank's own gradient
            self.meter.finish(call, on_host=self._ends_on_host)
            return tensor

        if self._slow_link:
            return self._slow_link.run(lambda: self._all_reduce_later(flat(tensor)).wait()).then(done)
        return self._all_reduce_later(flat(tensor)).then(done)

    def reduce(self, tensor: Tensor, target: int = 0, kind: Kind = "gradients") -> None:
        """In place: the sum over all ranks, on ``target``; what the others hold afterwards is undefined."""
        sent, received = (0, tensor.nbytes) if self.rank == target else (tensor.nbytes, 0)
        self._call("reduce", kind, sent, received, lambda: self._reduce(flat(tensor), target))

    def broadcast(self, tensor: Tensor, source: int = 0, kind: Kind = "parameters") -> None:
        """In place: what ``source`` holds, on every rank."""
        sent, received = (tensor.nbytes, 0) if self.rank == source else (0, tensor.nbytes)
        self._call("broadcast", kind, sent, received, lambda: self._broadcast(flat(tensor), source))

    def gather(self, tensor: Tensor, into: Tensor | None, target: int = 0, kind: Kind = "gradients") -> None:
        """Rank r's tensor lands in row r of ``into``, which is contiguous, on ``target``; the others pass None."""
        sent, received = (0, tensor.nbytes * (self.size - 1)) if into is not None else (tensor.nbytes, 0)
        self._call("gather", kind, sent, received, lambda: self._gather(flat(tensor), into, target))

    def scatter(
        self, tensor: Tensor, parts: Sequence[Tensor] | None, source: int = 0, kind: Kind = "gradients"
    ) -> None:
        """In place: rank r receives ``parts[r]`` of ``source``; the other ranks pass None."""
        sent, received = (tensor.nbytes * (self.size - 1), 0) if parts is not None else (0, tensor.nbytes)
        rows = [flat(item) for item in parts] if parts is not None else None
        self._call("scatter", kind, sent, received, lambda: self._scatter(flat(tensor), rows, source))

    def reduce_scatter(self, rows: Tensor, into: Tensor, kind: Kind = "gradients") -> None:
        """The sum over all ranks of row r of ``rows``, which is contiguous, lands in ``into`` on rank r."""
        if self.size == 1:
            flat(into).copy_(flat(rows))
        self._call(
            *("reduce_scatter", kind, rows.nbytes - into.nbytes, into.nbytes),
            lambda: self._reduce_scatter(flat(rows), flat(into)),
        )

    def all_gather(self, tensor: Tensor, into: Tensor, kind: Kind = "parameters") -> None:
        """Rank r's tensor lands in row r of ``into``, which is contiguous, on every rank."""
        if self.size == 1:
            flat(into).copy_(flat(tensor))
        self._call(
            *("all_gather", kind, tensor.nbytes, into.nbytes - tensor.nbytes),
            lambda: self._all_gather(flat(tensor), flat(into)),
        )

    def exchange(
        self, outgoing: Tensor, target: int, incoming: Tensor, source: int, kind: Kind = "gradients"
    ) -> None:
        """Send to one rank while receiving from another; every rank does so at the same point of the program."""
        self._call(
            *("exchange", kind, outgoing.nbytes, incoming.nbytes),
            lambda: self._exchange(outgoing, target, incoming, source),
        )

    def send(self, tensor: Tensor, target: int, kind: Kind = "control", tag: int = 0) -> None:
        """Messages with different tags do not interfere."""
        self._call("send", kind, tensor.nbytes, 0, lambda: self._send(tensor, target, tag))

    def receive(self, tensor: Tensor, source: int, kind: Kind = "control", tag: int = 0) -> None:
        self._call("receive", kind, 0, tensor.nbytes, lambda: self._receive(tensor, source, tag))

    def stamped_wait(self, call: Callable[[], object]) -> None:
        """Stamp a call that waits for other ranks without a message from this one."""
        stamps = self.meter.start("receive", "control", 0, 0)
        call()
        self.meter.finish(stamps)

    def unmetered(self) -> Comm:
        """This end of the group without a meter, for messages that belong to no step of this rank."""
        other = copy.copy(self)
        other.meter = Stopwatch()
        other._slow_link = None
        return other

    def carrier(self, device: torch.device) -> torch.device:
        """The device a small message must be on to be sent."""
        return torch.device("cpu")

    def on_host(self) -> Comm:
        """This end of the group for messages from host memory, which do not queue behind those of a GPU."""
        return self

    @contextmanager
    def slow_link(self, seconds: float) -> Iterator[None]:
        """While the block runs, every message of this rank is delayed by this many seconds. 0 changes nothing."""
        if seconds == 0:
            yield
            return
        self._slow_link = Background("slow-link", seconds)
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
            self._slow_link.run(call).wait()
        else:
            call()
        self.meter.finish(stamps)

    # What a transport must implement. Tensors are flat, except for exchange, send and receive, which take dense ones.

    _ends_on_host = True  # the end of an all-reduce in the background is seen by the host, not in the GPU's stream

    @abstractmethod
    def _all_reduce(self, block: Tensor) -> None: ...

    @abstractmethod
    def _all_reduce_later(self, block: Tensor) -> Future[Any]: ...

    @abstractmethod
    def _reduce(self, block: Tensor, target: int) -> None: ...

    @abstractmethod
    def _broadcast(self, block: Tensor, source: int) -> None: ...

    @abstractmethod
    def _gather(self, block: Tensor, into: Tensor | None, target: int) -> None: ...

    @abstractmethod
    def _scatter(self, block: Tensor, parts: list[Tensor] | None, source: int) -> None: ...

    @abstractmethod
    def _reduce_scatter(self, rows: Tensor, into: Tensor) -> None: ...

    @abstractmethod
    def _all_gather(self, block: Tensor, into: Tensor) -> None: ...

    @abstractmethod
    def _exchange(self, outgoing: Tensor, target: int, incoming: Tensor, source: int) -> None: ...

    @abstractmethod
    def _send(self, tensor: Tensor, target: int, tag: int) -> None: ...

    @abstractmethod
    def _receive(self, tensor: Tensor, source: int, tag: int) -> None: ...


class Background:
    """A thread that makes calls in the order they were submitted, each after a pause.

    One thread makes all of them: the order of collectives must be the same on every rank. It is no pool of
    concurrent.futures, which takes no more calls when Python exits: a rank may have to wait for the others then.
    """

    def __init__(self, name: str, pause: float = 0.0) -> None:
        self._pause = pause
        self._closed = False
        self._calls: SimpleQueue[tuple[Callable[[], object], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._make_calls, name=name, daemon=True).start()

    def run(self, call: Callable[[], object]) -> Future[Any]:
        ended: Future[Any] = Future()
        self._calls.put((call, ended))
        return ended

    def _make_calls(self) -> None:
        while True:
            call, ended = self._calls.get()
            if self._closed:
                return
            time.sleep(self._pause)
            try:
                call()
            except Exception as error:
                ended.set_exception(error)
            else:
                ended.set_result(None)
            del call, ended  # and what they hold

    def close(self) -> None:
        """After the call in progress; those that wait are not made."""
        self._closed = True
        self._calls.put((lambda: None, Future()))  # it may be waiting for one


def flat(tensor: Tensor) -> Tensor:
    """The memory of a dense tensor as one dimension, without a copy."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    assert tensor.numel() == 1 + sum(
        (n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ), "only dense tensors can travel without a copy"
    return torch.as_strided(tensor, (tensor.numel(),), (1,))
