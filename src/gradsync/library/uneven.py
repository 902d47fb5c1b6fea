"""Ranks with different numbers of batches: one that has run out takes part with zero weight until all have.

Every step starts with a small message, sent while forward runs: who has a batch. A rank without one contributes
gradients of zero, and the mean is that over the ranks with one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.futures import Future

from gradsync.comm import Comm


class Presence:
    """Which ranks have a batch for the step that has begun."""

    def __init__(self, comm: Comm, device: torch.device) -> None:
        self._comm = comm.unmetered()  # it is no message of the strategy
        self._flags = torch.zeros(comm.size, device=comm.carrier(device))
        self._coming: Future[Any] | None = None
        self.last = list(range(comm.size))
        """The ranks that made the last step which any rank made."""

    @property
    def announced(self) -> bool:
        return self._coming is not None

    def announce(self, present: bool = True) -> None:
        """This rank begins a step, with a batch or without; once a step."""
        if self._coming is None:
            self._flags.zero_()
            self._flags[self._comm.rank] = float(present)
            self._coming = self._comm.all_reduce_later(self._flags, kind="control")

    def settle(self) -> list[int]:
        """Wait for the others to begin the same step: the ranks with a batch for it."""
        self.announce()
        assert self._coming is not None
        self._coming.wait()
        self._coming = None
        present = [rank for rank, flag in enumerate(self._flags.tolist()) if flag]
        self.last = present or self.last
        return present


def weigh(gradients: list[Tensor], present: int, size: int) -> None:
    """Turn the mean over all ranks, of which some contributed zero, into the mean over those present."""
    if 0 < present < size:
        torch._foreach_mul_(gradients, size / present)
