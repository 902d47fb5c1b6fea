"""What ``attach`` returns: the strategy in the user's own loop, with what such loops do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
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
from gradsync.library.recording import Recording, read_values, tensors_in
from gradsync.library.report import finish_recording
from gradsync.library.takeover import take_over
from gradsync.library.uneven import ALL_NEEDED, Presence, weigh
from gradsync.live.trackers.running import Trackers
from gradsync.strategies import Strategy, Unused, strategy_of
from gradsync.strategies.gradients import unused
from gradsync.strategies.gradients.nothing import contribute_nothing, note_present, update_nothing, update_sends
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
        self._number = 0
        self._sends_in_forward = self._holding_back = False
        self._scaler: GradScaler | None = None
        self._recorded: Recording | None = None
        self._recording: Recording | None = None
        self._report = False
        self._trackers = Trackers()
        self._agreed = False
        self.steps = 0
        """Steps made so far, also those of other ranks since this one has run out of batches."""

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
        if self._presence and self._sends_in_forward and self.model.training:
            self._presence.need_all(self._number)
        if self._recording:
            self._recording.forward([*args, *kwargs.values()])
        outputs = self.strategy(*args, **kwargs)
        if self._presence and self._sends_in_backward and not self._holding_back:
            for tensor in tensors_in(outputs):
                if tensor.requires_grad:
                    tensor.register_hook(self._begin)
        if self._recording:
            self._recording.backward_of(outputs)
        return outputs

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        """A context for forward and backward of all micro-batches but the last: gradients add up, nothing is sent."""
        self._holding_back = True
        try:
            with self.strategy.accumulating():
                yield
        finally:
            self._holding_back = False

    @property
    def _sends_in_backward(self) -> bool:
        return self.strategy.after_backward != "own" and not self._sends_in_forward

    def _begin(self, *_: object) -> None:
        """The gradients of this step are about to be sent."""
        if self._presence and not (self._sends_in_forward or self._holding_back):
            self._presence.begin(self._number)

    def agree(self) -> None:
        """After backward: replace every gradient by its mean over all workers."""
        if self._agreed:
            raise InputError("sync.agree() was called twice in one step: call sync.update() after it, not step().")
        self.comm.meter.phase("agree")
        if self._untouched:
            self._untouched.check(type(self.strategy).__name__)
        self._begin()
        self._agree()
        if self._presence and not self._sends_in_forward:
            present = self._presence.settle(self._number)
            note_present(self.strategy, present)
            gradients = [parameter.grad for _, parameter in self._trainable if parameter.grad is not None]
            weigh(gradients, len(present), self.size)
        self._agreed = True

    def _agree(self, *, has_batch: bool = True) -> None:
        if self._unused == "refuse":
            self.strategy.agree()
            return
        parameters = [parameter for _, parameter in self._trainable]
        has_one = unused.fill(parameters)
        self.strategy.agree()
        unused.clear(parameters, [has and has_batch for has in has_one], self.comm)

    def update(self, scaler: GradScaler | None = None, *, closure: None = None) -> None:
        """After ``agree``: update the parameters, synchronize buffers, clear the gradients. Takes no ``closure``."""
        refuse_closure(scaler, closure)
        if not self._agreed:
            raise InputError("sync.update() was called without sync.agree() before it. HINT: sync.step() does both.")
        self._agreed = False
        if self._presence:
            self._presence.begin_update(self._number)
        self.strategy.update(scaler)
        self.steps += 1
        self._scaler = scaler or self._scaler
        if self._recording:
            self._recording.step_ends()

    def step(
        self,
        scaler: GradScaler | None = None,
        *,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        closure: None = None,
    ) -> Tensor | None:
        """``agree``, clip the mean if asked to, ``update``; returns the norm before clipping, with ``clip_norm``.

        ``scaler``: the GradScaler that scaled the loss. It unscales before clipping, updates or skips, and adapts.
        A ``closure`` is refused.
        """
        refuse_closure(scaler, closure)
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

    def expect_uneven(self, presence: Presence, *, sends_in_forward: bool) -> None:
        """From now on every step begins with a message to the ranks that have run out of batches."""
        self._presence, self._number = presence, presence.add(self)
        self._sends_in_forward = sends_in_forward
        self.strategy.on_detach(partial(presence.remove, self._number))

    def batches(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """The batches of this rank, in a loop that ends on all ranks at the same time: a rank that has fewer takes
        part in the remaining steps of the others with zero weight."""
        yield from loader
        self.wait_for_others()

    def wait_for_others(self) -> None:
        """This rank has run out of batches: take part in the others' steps with zero weight until they have, too.

        With several attached models, in the steps of all. Afterwards every rank has the state of those that made the
        last step: parameters, buffers, the optimizer's state and learning rates, schedulers, and the GradScaler's.
        """
        if self._presence and strategy_of(self.model) is self.strategy:
            self._presence.wait_for_others()

    @property
    def update_sends(self) -> bool:
        return update_sends(self.strategy)

    def contribute(self, present: list[int], *, sent: bool) -> None:
        """Take part in a step of the ranks that are present. ``sent``: a backward of this rank has been its part."""
        if self._sends_in_forward:
            raise InputError(ALL_NEEDED.format(absent=self.rank))
        note_present(self.strategy, present)
        self._recorded = None if sent else self._recording
        if self._recorded:
            self._recorded.no_batch()
        if sent and self._sends_in_backward:
            with suppress(InputError):  # the gradients were cleared since: they are not needed here
                self._agree()
            return
        self.optimizer.zero_grad()  # of a backward after the last step
        contribute_nothing(self.strategy)
        if self._untouched:
            self._untouched.forget()
        self._agree(has_batch=False)

    def rest(self) -> None:
        """Take part in the update of the others."""
        update_nothing(self.strategy)
        if self._recorded:
            self._recorded.step_ends()

    def catch_up(self, exchange: Callable[[int], list[int]], comm: Comm) -> None:
        """Take over the state of a rank that has made more steps, or give it."""
        steps = exchange(self.steps)
        most = max(steps)
        if min(steps) < most:
            behind = self.steps < most
            source = steps.index(most)
            take_over(self.model, self.optimizer, self._scaler, source=source, behind=behind, comm=comm)
        self.steps = most

    # --- the end ---

    def detach(self) -> None:
        """Remove every hook and wrapper, so that the model trains as if it had never been attached.

        Sends nothing, except that it ends the record, if there is one: every rank calls it at the same point.
        """
        self.close_record()
        self._presence = None
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


def refuse_closure(scaler: object, closure: object) -> None:
    if callable(scaler) or closure is not None:
        raise InputError(NO_CLOSURES)
    if scaler is not None and not isinstance(scaler, GradScaler):
        raise InputError(f"sync.step() takes a torch.amp.GradScaler or nothing, not a {type(scaler).__name__}.")


def refuse_needy(optimizer: Optimizer) -> None:
    """An optimizer whose ``step`` cannot be called without a closure."""
    closure: Parameter | None = signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is Parameter.empty:
        raise InputError(f"{type(optimizer).__name__} needs a closure: {NO_CLOSURES}")
