"""What happens to buffers, above all BatchNorm's running statistics, after every step.

local      each rank keeps its own: no message, and the ranks' test accuracies differ.
broadcast  every rank gets those of rank 0, in one message of all floating-point buffers, as with DDP. DDP sends them
           before the next forward; after the step they have the same values at the same cost, and evaluation needs
           no message of its own.
average    the mean over all ranks, by one all-reduce.

In a step for which only some ranks have a batch, the first of them takes the place of rank 0, and the mean is theirs.

Integer buffers, such as BatchNorm's batch counter, are the same on every rank already and are not sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gradsync.comm import Comm, Traffic, cost, flat
from gradsync.config import Buffers
from gradsync.strategies.state.sync_batchnorm import SyncBatchNorm


class BufferSync:
    """Called after each step. Buffers that are the same on all ranks anyway are left alone."""

    def __init__(self, model: nn.Module, comm: Comm, mode: Buffers) -> None:
        synchronized = {
            id(buffer) for part in model.modules() if isinstance(part, SyncBatchNorm) for buffer in part.buffers()
        }
        self._buffers = [
            buffer for buffer in model.buffers() if buffer.is_floating_point() and id(buffer) not in synchronized
        ]
        self._comm = comm
        self._mode = mode
        self._active = bool(self._buffers) and comm.size > 1
        self.present: Sequence[int] = range(comm.size)
        """The ranks with a batch in this step."""

    @property
    def leaves_ranks_different(self) -> bool:
        return self._active and self._mode == "local"

    @property
    def sends(self) -> bool:
        return self._active and self._mode != "local"

    def traffic(self) -> Traffic:
        """Bytes sent and received by one call, in closed form."""
        if not self.sends:
            return Traffic()
        count = sum(buffer.nbytes for buffer in self._buffers)
        if self._mode == "broadcast":
            return cost.broadcast(self._comm.rank, self._comm.size, count)
        return cost.all_reduce(self._comm.size, count)

    @torch.no_grad()
    def __call__(self) -> None:
        if not self.sends:
            return
        packed = torch.cat([flat(buffer) for buffer in self._buffers])
        if self._mode == "broadcast":
            self._comm.broadcast(packed, self.present[0], kind="buffers")
        else:
            if self._comm.rank not in self.present:
                packed.zero_()
            self._comm.all_reduce(packed, kind="buffers")
            packed /= len(self.present)
        pieces = packed.split([buffer.numel() for buffer in self._buffers])
        torch._foreach_copy_([flat(buffer) for buffer in self._buffers], list(pieces))
