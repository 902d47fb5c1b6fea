"""What ``attach`` returns: the strategy in the user's own loop, with what such loops do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from inspect import Parameter, signature
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import Optimizer

from gradsync.comm import Comm
from gradsync.errors import InputError
from gradsync.library.exits import cause_of, undisturbed
from gradsync.library.recording import Recording, read_values
from gradsync.library.report import finish_recording
from gradsync.library.uneven import Presence, weigh
from gradsync.live.trackers.running import Trackers
from gradsync.strategies import Strategy, Unused, strategy_of
from gradsync.strategies.gradients import unused
from gradsync.strategies.gradients.nothing import contribute_nothing
from gradsync.strategies.gradients.untouched import Untouched

Batch = TypeVar("Batch")

NO_CLOSURES = (
    "closures are refused: an optimizer that evaluates the model several times a step, such as LBFGS, would need "
    "the workers to agree inside its step. HINT: use an optimizer whose step() takes no argument."
)


class Sync:
    """Call it like the model, and call ``step`` instead of the optimizer's.

    ``step`` is ``agree`` followed by ``update``: between the two the gradients are the mean over all workers, with
    every strategy, and can be read, clipped and changed as in one process.
    """

    def __init__(self, strategy: Strategy, optimizer: Optimizer, unused: Unused = "refuse") -> None:
        self.strategy = strategy
        self._unused = unused
        self.optimizer = optimizer
        self._trainable = [(name, p) for name, p in strategy.model.named_parameters() if p.requires_grad]
        self._untouched: Untouched | None = None
        if self.size > 1 and strategy.after_backward == "own":
            self._untouched = Untouched(self._trainable)
            strategy.on_detach(self._untouched.remove)
        self._presence: Presence | None = None
        self._recording: Recording | None = None
        self._report = False
        self._trackers = Trackers()
        self._agreed = False

    @property
    def model(self) -> nn.Module:
        """The model that was attached."""
        return self.strategy.model

    @property
    def comm(self) -> Comm:
        """This rank's end of the group: for own messages."""
        return self.strategy.comm

    @property
    def rank(self) -> int:
        return self.comm.rank

    @property
    def size(self) -> int:
        return self.comm.size

    # --- a step ---

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            if self._recording:
                self._recording.test()
            return self.strategy(*args, **kwargs)
        if self._presence:
            self._presence.announce()
        if not self._recording:
            return self.strategy(*args, **kwargs)
        self._recording.forward([*args, *kwargs.values()])
        outputs = self.strategy(*args, **kwargs)
        self._recording.backward_of(outputs)
        return outputs

    def accumulating(self) -> AbstractContextManager[object]:
        """A context for forward and backward of all micro-batches but the last: gradients add up, nothing is sent."""
        return self.strategy.accumulating()

    def agree(self) -> None:
        """After backward: replace every gradient by its mean over all workers."""
        if self._agreed:
            raise InputError("sync.agree() was called twice in one step: call sync.update() after it, not step().")
        self.comm.meter.phase("agree")
        if self._untouched:
            self._untouched.check(type(self.strategy).__name__)
        present = self._presence.settle() if self._presence else []
        self._agree(len(present) or self.size)
        self._agreed = True

    def _agree(self, present: int) -> None:
        parameters = [parameter for _, parameter in self._trainable]
        if self._unused == "refuse":
            self.strategy.agree()
        else:
            has_one = unused.fill(parameters)
            self.strategy.agree()
            unused.clear(parameters, has_one, self.comm)
        weigh([parameter.grad for parameter in parameters if parameter.grad is not None], present, self.size)

    def update(self, scaler: GradScaler | None = None) -> None:
        """After ``agree``: update the parameters, synchronize buffers, clear the gradients."""
        refuse_closure(scaler)
        if not self._agreed:
            raise InputError("sync.update() was called without sync.agree() before it. HINT: sync.step() does both.")
        self._agreed = False
        self.strategy.update(scaler)
        if self._recording:
            self._recording.step_ends()

    def step(
        self, scaler: GradScaler | None = None, *, clip_norm: float | None = None, clip_value: float | None = None
    ) -> Tensor | None:
        """``agree``, clip the mean if asked to, ``update``; returns the norm before clipping, with ``clip_norm``.

        ``scaler``: the GradScaler that scaled the loss. It unscales before clipping, updates or skips, and adapts.
        """
        refuse_closure(scaler)
        self.agree()
        norm = None
        if clip_norm is not None or clip_value is not None:
            parameters = [parameter for _, parameter in self._trainable]
            if scaler is not None:
                scaler.unscale_(self.optimizer)
            if clip_norm is not None:
                norm = clip_grad_norm_(parameters, clip_norm)
            if clip_value is not None:
                clip_grad_value_(parameters, clip_value)
        self.update(scaler)
        return norm

    # --- the record ---

    @property
    def is_recorded(self) -> bool:
        return self._recording is not None

    def record(self, recording: Recording, report: bool, trackers: Sequence[str] = ()) -> None:
        """``report``: print its tables at the end, on rank 0. ``trackers``: what rank 0 logs it to."""
        self._recording, self._report = recording, report
        if self.rank == 0:
            self._trackers.begin(recording.folder, trackers)

    def log(self, **values: Any) -> None:
        """Into the row of this step: ``loss``, ``accuracy`` or any metric, of this rank's batch; ``epoch``, from 1.

        Numbers, or tensors with one. Between ``step`` and the next call of the model it is the step that has ended.
        """
        if self._recording:
            self._recording.log(values)
        else:
            read_values(values)  # refused alike

    @undisturbed
    def close_record(self, error: BaseException | None = None) -> None:
        """End the record; rank 0 writes the summary of all ranks. ``error``: what has ended the loop, if anything."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        recording.close(error)
        if self.rank == 0:
            try:
                finish_recording(recording.folder, self.size, cause_of(error), self._report)
            finally:
                self._trackers.end()

    # --- ranks with different numbers of batches ---

    def expect_uneven(self, device: torch.device) -> None:
        """From now on every step begins with the message that ``wait_for_others`` needs."""
        self._presence = Presence(self.comm, device)

    def expect_even(self) -> None:
        self._presence = None

    def batches(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """The batches of this rank, in a loop that ends on all ranks at the same time: a rank that has fewer takes
        part in the remaining steps of the others with zero weight."""
        if self._presence is None and self.size > 1:
            raise InputError(
                "sync.batches() needs one attached model per script and layers without messages of their own: with "
                "several models, sync_bn, or NCCL, give every rank the same number of batches."
            )
        yield from loader
        self.wait_for_others()

    def wait_for_others(self) -> None:
        """This rank has run out of batches: take part in the others' steps with zero weight until they have, too.

        Afterwards every rank has the parameters and buffers of those that made the last step: a rank without a batch
        does not know of the learning rates and the clipping in the others' loops.
        """
        presence = self._presence
        if presence is None or strategy_of(self.model) is not self.strategy:
            return
        while True:
            self.optimizer.zero_grad()  # of a forward and backward after the last step
            presence.announce(False)
            present = presence.settle()
            if not present:
                break
            if self._recording:
                self._recording.no_batch()
            contribute_nothing(self.strategy)
            self._agree(len(present))
            self.strategy.update()
            if self._recording:
                self._recording.step_ends()
        if len(presence.last) < self.size:
            self._take_over(presence.last[0])
        presence.last = list(range(self.size))

    @torch.no_grad()
    def _take_over(self, source: int) -> None:
        for parameter in self.model.parameters():
            self.comm.broadcast(parameter, source, kind="parameters")
        for buffer in self.model.buffers():
            self.comm.broadcast(buffer, source, kind="buffers")

    # --- the end ---

    def detach(self) -> None:
        """Remove every hook and wrapper, so that the model trains as if it had never been attached.

        Sends nothing, except that it ends the record, if there is one: every rank calls it at the same point.
        """
        self.close_record()
        self.expect_even()
        self.strategy.detach()

    def __enter__(self) -> Sync:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if cause_of(error) is None:  # sys.exit() without a code is no failure
            self.wait_for_others()
        self.close_record(error)
        self.detach()


def refuse_closure(scaler: object) -> None:
    if callable(scaler):
        raise InputError(NO_CLOSURES)
    if scaler is not None and not isinstance(scaler, GradScaler):
        raise InputError(f"sync.step() takes a torch.amp.GradScaler or nothing, not a {type(scaler).__name__}.")


def refuse_needy(optimizer: Optimizer) -> None:
    """An optimizer whose ``step`` cannot be called without a closure."""
    closure: Parameter | None = signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is Parameter.empty:
        raise InputError(f"{type(optimizer).__name__} needs a closure: {NO_CLOSURES}")
