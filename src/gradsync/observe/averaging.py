"""The buckets of DistributedDataParallel, stamped by a communication hook that computes the bits DDP would.

Without a hook DDP takes the mean in one of three ways, which round differently unless N is a power of two:

1. It multiplies a gradient by 1/N while it copies it into its bucket.
2. It divides a gradient by N where it is in its bucket already: gradients are views of the buckets
   (``gradient_as_bucket_view``), and the script keeps them (``zero_grad(set_to_none=False)``, accumulation).
3. It divides whole buckets by N, if it has copied them in one go (``batched_grad_copy``).

With a hook it only copies: the hook does to the bucket what DDP would have done, one rounding per element as before,
and sums it with the same all-reduce over the same block of memory. This costs a pass over all gradients, which
benchmarks/watch.py measures.

A script that registers a hook keeps it, before the first step or after.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable
from torch.nn.parallel import DistributedDataParallel

from gradsync.comm import TorchComm, cost
from gradsync.meter.recorder import Recorder, Stopwatch
from gradsync.observe.messages import Replace, is_world
from gradsync.observe.watcher import Watcher

OWN_HOOK = "DDP has a communication hook of the script's own: its messages are counted as part of backward"


class Averaging:
    """The instances of DDP in this process."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._stamped: WeakKeyDictionary[nn.Module, Bucketwise] = WeakKeyDictionary()
        self._built_in: WeakSet[nn.Module] = WeakSet()

    def install(self, replace: Replace) -> None:
        replace([DistributedDataParallel], "register_comm_hook", self._keeping_the_scripts_own)
        replace([DistributedDataParallel], "_register_builtin_comm_hook", self._noting_the_built_in)
        self._watcher.before_backward = self._note_gradients

    def stamp(self, model: nn.Module, meter: Recorder) -> None:
        """Register our hook with every DDP in a model, before its first backward."""
        for ddp in model.modules():
            several = dist.is_initialized() and dist.get_world_size() > 1
            if isinstance(ddp, DistributedDataParallel) and ddp not in self._stamped and several:
                if reason := self._reason_against(ddp):
                    self._watcher.remark(reason)
                    continue
                self._stamped[ddp] = state = Bucketwise(self._watcher, ddp, meter)
                # Not ddp.register_comm_hook: it would keep our state with the model, where pickling would find it.
                dist._register_comm_hook(ddp.reducer, state, average)

    def stop(self) -> None:
        """The hook cannot be removed from DDP, but takes no more stamps."""
        for state in self._stamped.values():
            state.comm.meter = Stopwatch()

    def _note_gradients(self) -> None:
        for state in self._stamped.values():
            state.note_gradients()

    def _reason_against(self, ddp: DistributedDataParallel) -> str | None:
        if ddp._comm_hooks or ddp in self._built_in or ddp.mixed_precision is not None:
            return OWN_HOOK
        if not is_world(ddp.process_group):
            return "DDP averages over a subgroup of the ranks: its messages are counted as part of backward"
        if ddp._join_config.enable or getattr(ddp, "_use_python_reducer", False) or averages_sparse(ddp):
            return "DDP runs inside join(), compiled, or with sparse gradients: its messages are part of backward"
        return None

    def _keeping_the_scripts_own(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def register(ddp: DistributedDataParallel, state: object, hook: Callable[..., Any]) -> None:
            ours = self._stamped.get(ddp)
            if ours is None or ddp._comm_hooks:
                return original(ddp, state, hook)
            ddp._check_comm_hook(hook)
            ddp._comm_hooks.append((hook, state))
            ours.own = functools.partial(hook, state)
            return None

        return register

    def _noting_the_built_in(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def register(ddp: DistributedDataParallel, *args: Any) -> None:
            original(ddp, *args)
            self._built_in.add(ddp)

        return register


class Bucketwise:
    """The state of our hook in one instance of DDP."""

    def __init__(self, watcher: Watcher, ddp: DistributedDataParallel, meter: Recorder) -> None:
        self.watcher = watcher
        self.comm = TorchComm(dist.get_rank(), dist.get_world_size(), meter)
        self.own: Callable[[Any], Any] | None = None
        """The hook that the script has registered since."""

        self._ddp = ref(ddp)
        self._divides_buckets = getattr(ddp, "batched_grad_copy", False)  # since torch 2.13
        self._kept: dict[int, int] = {}
        """id of a parameter that has a gradient when backward begins -> where the memory of that gradient begins."""

    def note_gradients(self) -> None:
        """Backward begins, and will add to the gradients that are there."""
        ddp = self._ddp()
        if ddp is not None and ddp.gradient_as_bucket_view and not self._divides_buckets:
            had = ((item, item.grad) for item in ddp._module_parameters)
            self._kept = {
                id(item): gradient.untyped_storage().data_ptr() for item, gradient in had if gradient is not None
            }

    def take_share(self, bucket: dist.GradBucket, gradients: torch.Tensor) -> None:
        """This rank's part of the mean, as DDP would take it."""
        size = self.divisor
        if self._divides_buckets:
            gradients.div_(size)
            return
        here = gradients.untyped_storage().data_ptr()
        if here not in self._kept.values():
            gradients.mul_(1.0 / size)
            return
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            if self._kept.get(id(parameter)) == here:
                gradient.div_(size)
            else:
                gradient.mul_(1.0 / size)

    @property
    def divisor(self) -> int:
        """Over how many ranks DDP would take the mean: inside join() it may be those that still have batches."""
        ddp = self._ddp()
        of_present = ddp is not None and ddp._join_config.enable and not ddp._divide_by_initial_world_size
        if of_present and self.watcher.latest_flag is not None:
            work, flag = self.watcher.latest_flag
            work.wait()
            return int(flag.item())
        return self.comm.size


def average(state, bucket):  # without types: DDP refuses annotations that are strings
    """The all-reduce that DDP does by default, but through our comm; or what the script's own hook does."""
    watcher, gradients = state.watcher, bucket.buffer()
    if state.own is not None:
        watcher.remark(OWN_HOOK)
        return state.own(bucket)
    if bucket.is_last() and watcher.in_backward:  # a rank that has joined others' steps calls this outside of it
        # Runs when backward has computed everything, before DDP waits for the buckets that are still being reduced.
        # Asked for with the first bucket, it would run when the backward of a checkpoint inside ends.
        Variable._execution_engine.queue_callback(watcher.drains)
    state.take_share(bucket, gradients)
    watcher.traffic += cost.all_reduce(state.comm.size, gradients.nbytes)
    with watcher.quiet():
        return state.comm.all_reduce_later(gradients)


def averages_sparse(ddp: DistributedDataParallel) -> bool:
    return any(getattr(part, "sparse", False) for part in ddp.modules())
