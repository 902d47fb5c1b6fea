"""A server of a parameter server: its shard of the parameters, and when a gradient is applied to it.

A thread per worker calls ``push``; a lock admits one of them at a time.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from gradsync.comm import LostPeer
from gradsync.strategies.gradients.packed import Packed

Combine = Literal["mean", "sum"]


class Reply(NamedTuple):
    """What the server sends a worker in return for its gradient."""

    version: int
    """Updates applied so far."""

    finished: bool
    parameters: Tensor


class Server(ABC):
    """Holds its parameters in one block, and a receive buffer of the same size for each worker's gradient."""

    def __init__(self, parameters: list[nn.Parameter], optimizer: Optimizer, workers: int) -> None:
        packed = Packed(parameters)
        packed.hold_parameters()
        self.parameters = packed.block
        self.version = 0
        self.note: Callable[..., None] = lambda kind, **values: None
        self._gradients = Packed(parameters)
        self._gradients.give_back()  # the optimizer reads its gradients from this block
        self._optimizer = optimizer
        self._inboxes = [torch.empty_like(self.parameters) for _ in range(workers)]
        self._snapshots: dict[int, Tensor] = {}
        self._present = set(range(workers))
        self._turn = threading.Condition()

    def inbox(self, worker: int) -> Tensor:
        """Where the worker's next gradient goes."""
        return self._inboxes[worker]

    def push(self, worker: int, version: int) -> Reply:
        """The worker's inbox holds a gradient, computed with the parameters of ``version``."""
        begin = time.monotonic()
        with self._turn:
            staleness = self.version - version
            applied = self._take(worker, staleness)
            reply = Reply(self.version, self._finished(), self._reply(worker))
        self.note(
            "push",
            **{"worker": worker, "update": reply.version, "staleness": staleness, "applied": applied},
            **{"begin": begin, "seconds": time.monotonic() - begin},
        )
        return reply

    def leave(self, worker: int) -> None:
        """The worker has finished, or is lost."""
        with self._turn:
            self._present.discard(worker)
            self._turn.notify_all()

    def close(self) -> None:
        """Take this server's hooks and gradients from the optimizer and the parameters."""
        for parameter in self._gradients.parameters:
            parameter.grad = None

    @abstractmethod
    def _take(self, worker: int, staleness: int) -> bool:
        """Apply the gradient, now or together with others, or drop it; return whether it was applied."""

    def _finished(self) -> bool:
        return False

    def _reply(self, worker: int) -> Tensor:
        """A copy: while it is being sent, another worker's gradient may change the parameters."""
        if worker not in self._snapshots:
            self._snapshots[worker] = torch.empty_like(self.parameters)
        return self._snapshots[worker].copy_(self.parameters)

    def _update(self) -> None:
        self._optimizer.step()
        self.version += 1


class SyncServer(Server):
    """One update when ``aggregate`` gradients of this version have arrived; later ones are dropped.

    They are summed in the order of the workers, not of arrival, so that every run gives the same bits.
    """

    def __init__(self, *args: Any, aggregate: int, combine: Combine, updates: int) -> None:
        super().__init__(*args)
        self._aggregate = aggregate
        self._combine = combine
        self._updates = updates
        self._arrived: set[int] = set()

    def _take(self, worker: int, staleness: int) -> bool:
        if staleness or self._finished():
            return False
        self._arrived.add(worker)
        version = self.version
        if len(self._arrived) == self._aggregate:
            self._apply(sorted(self._arrived))
            self._arrived.clear()
            self._turn.notify_all()
        while self.version == version:
            if len(self._present) < self._aggregate:
                raise LostPeer(
                    f"{len(self._present)} of {len(self._inboxes)} workers are left, but an update needs "
                    f"{self._aggregate} gradients. HINT: with --options.aggregate a run survives lost workers."
                )
            self._turn.wait()
        return True

    def _apply(self, workers: list[int]) -> None:
        total = self._gradients.block.copy_(self._inboxes[workers[0]])
        for worker in workers[1:]:
            total.add_(self._inboxes[worker])
        if self._combine == "mean":
            total.div_(len(workers))
        self._update()

    def _finished(self) -> bool:
        return self.version >= self._updates

    def _reply(self, worker: int) -> Tensor:
        """No copy where every update needs all workers: nothing changes until all have received their reply."""
        return self.parameters if self._aggregate == len(self._inboxes) else super()._reply(worker)


class AsyncServer(Server):
    """One update for every gradient as it arrives; those that are too stale are dropped."""

    def __init__(self, *args: Any, max_staleness: int | None, lr_by_staleness: bool) -> None:
        super().__init__(*args)
        self._max_staleness = max_staleness
        self._staleness = 0
        self._rate_hook: RemovableHandle | None = None
        if lr_by_staleness:
            # Runs after the hook that sets the learning rate of this update.
            self._rate_hook = self._optimizer.register_step_pre_hook(self._divide_rate)

    def close(self) -> None:
        super().close()
        if self._rate_hook:
            self._rate_hook.remove()

    def _take(self, worker: int, staleness: int) -> bool:
        if self._max_staleness is not None and staleness > self._max_staleness:
            return False
        self._staleness = staleness
        self._gradients.block.copy_(self._inboxes[worker])
        self._update()
        return True

    def _divide_rate(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            group["lr"] /= max(1, self._staleness)
