"""PyTorch's DistributedDataParallel: buckets all-reduced during backward (part 3 of the VGG-11 reports)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import Any

from torch import nn
from torch.autograd import Variable
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from gradsync.comm import Comm, Traffic, cost
from gradsync.config import Buffers
from gradsync.strategies.base import Strategy
from gradsync.strategies.bucketed import positive_size
from gradsync.strategies.gradients.unused import Unused

# torch 2.13 renamed this argument and warns about the old name, the only one that 2.11 has.
NEW_NAME = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
NO_BUFFERS: dict[str, Any] = {"forward_sync_buffers" if NEW_NAME else "broadcast_buffers": False}


class DDP(Strategy):
    """During backward, for each bucket of gradients in reverse order of use:

    1. divide by the number of workers as soon as the bucket is full;
    2. all-reduce it while backward computes the next.

    Cost per step: one collective per bucket; 2(N−1)/N · S bytes sent and received per rank with a ring. Backward
    returns when all buckets are reduced: the gradients are the mean before ``step``, and can be clipped there.
    """

    after_backward = "final"
    default_buffers = "broadcast"
    over_mpi = False  # its reducer sends over torch's own process group

    def __init__(
        self,
        comm: Comm,
        *,
        buffers: Buffers | None = None,
        bucket_mb: float | None = None,
        unused: Unused = "refuse",
    ) -> None:
        super().__init__(comm, buffers=buffers)
        self.bucket_mb = positive_size(bucket_mb)
        self._unused = unused
        self._unhooked()

    def attach(self, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        super().attach(model, optimizer)
        if self.comm.size > 1:
            ddp = DistributedDataParallel(
                model,
                bucket_cap_mb=self.bucket_mb,  # None: 25 MB with a first bucket of 1 MB, so that sending starts early
                gradient_as_bucket_view=True,  # saves copying every gradient out of its bucket
                init_sync=False,  # every rank has rank 0's parameters already
                find_unused_parameters=self._unused == "zero",
                **NO_BUFFERS,  # BufferSync does it, as with every other strategy
            )
            if self.comm.meter.on:
                ddp.register_comm_hook(self, all_reduce_stamped)
                self._hooked = True
                self.on_detach(self._unhooked)
            self.on_detach(ddp._remove_autograd_hooks)  # otherwise they stay while anything refers to the wrapper
            self.forward = ddp
        return self.forward

    def _unhooked(self) -> None:
        self._hooked = self._mean_in_loss = False

    def loss_factor(self) -> float:
        """A communication hook has to average by itself, which costs a pass over all gradients.

        If the world size is a power of two, scaling the loss gives the same bits for free; 1/3 would round
        differently.
        """
        self._mean_in_loss = self._hooked and self.comm.size & (self.comm.size - 1) == 0
        return 1.0 / self.comm.size if self._mean_in_loss else 1.0

    def agree(self) -> None:
        self.gradients()  # refuses parameters without one: DDP would only say so at the next forward
        if isinstance(self.forward, DistributedDataParallel):
            # Once, after the first backward. DDP would do it in the next forward, by a message that a rank without a
            # batch does not expect there.
            self.forward.reducer._rebuild_buckets()

    def accumulating(self) -> AbstractContextManager[object]:
        return self.forward.no_sync() if isinstance(self.forward, DistributedDataParallel) else nullcontext()

    def gradient_traffic(self, count: int) -> Traffic:
        return cost.all_reduce(self.comm.size, count)


def loss_factor(sync: Strategy) -> float:
    """A training loop that calls this multiplies its loss by it before backward: so a measured ddp averages."""
    return sync.loss_factor() if isinstance(sync, DDP) else 1.0


def all_reduce_stamped(sync, bucket):  # without types: DDP refuses annotations that are strings
    """The all-reduce that DDP does by default, but through our comm, so that each bucket is time-stamped."""
    comm, gradients = sync.comm, bucket.buffer()
    if bucket.is_last():
        # Runs when backward has computed everything, before DDP waits for the buckets that are still being reduced.
        # Asked for with the first bucket, it would run when the backward of a checkpoint inside ends.
        Variable._execution_engine.queue_callback(lambda: comm.meter.phase("drain"))
    if not sync._mean_in_loss:
        gradients.mul_(1.0 / comm.size)  # as DDP does: for three workers, dividing by three would round differently
    return comm.all_reduce_later(gradients)
