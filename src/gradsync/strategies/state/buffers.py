"""What happens to buffers, above all BatchNorm's running statistics, after every step.

local      each rank keeps what it saw: no message, and the ranks' test accuracies differ.
broadcast  rank 0's for everybody, one message of all floating-point buffers: what DDP does. DDP sends it before
           the next forward; after the step is the same value at the same cost, and evaluation needs nothing more.
average    the mean over all ranks, one all-reduce.

Integer buffers (BatchNorm's batch counter) are the same on every rank already and do not travel.
"""

from __future__ import annotations

import torch
from torch import nn

from gradsync.comm import Comm, Traffic, cost, flat
from gradsync.config import Buffers
from gradsync.strategies.sync_batchnorm import SyncBatchNorm


class BufferSync:
    """Call after each step. Buffers that are the same on all ranks anyway are left alone."""

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

    @property
    def leaves_ranks_different(self) -> bool:
        return self._active and self._mode == "local"

    def traffic(self) -> Traffic:
        """Bytes of one call in closed form."""
        if not self._active or self._mode == "local":
            return Traffic()
        count = sum(buffer.nbytes for buffer in self._buffers)
        if self._mode == "broadcast":
            return cost.broadcast(self._comm.rank, self._comm.size, count)
        return cost.all_reduce(self._comm.size, count)

    @torch.no_grad()
    def __call__(self) -> None:
        if not self._active or self._mode == "local":
            return
        packed = torch.cat([flat(buffer) for buffer in self._buffers])
        if self._mode == "broadcast":
            self._comm.broadcast(packed, kind="buffers")
        else:
            self._comm.all_reduce(packed, kind="buffers")
            packed /= self._comm.size
        pieces = packed.split([buffer.numel() for buffer in self._buffers])
        torch._foreach_copy_([flat(buffer) for buffer in self._buffers], list(pieces))
