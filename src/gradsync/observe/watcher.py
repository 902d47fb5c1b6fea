"""What one process is seen to do: its steps and their phases, from hooks in torch that the script does not notice.

    after a step, until the model is called     data, as is any other time in a DataLoader
    the outermost module is called              forward
    torch.autograd.backward                     backward; then other, until the optimizer
    the optimizer's step                        optimizer

A step ends with the optimizer that made the first one, however many batches were accumulated for it. Other optimizers
belong to the step in which they are called. A step that GradScaler skips ends with its ``update``. A call without
gradients, as in a test, belongs to no step: the next step begins with the next training forward.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, ref

import torch
from torch import Tensor, nn

from gradsync.ledger.cost import Traffic
from gradsync.library.exits import undisturbed

if TYPE_CHECKING:
    from gradsync.meter.recorder import Call, Recorder
    from gradsync.observe.recording import Place, Recording

TAKES_OVER = 100
"""Steps of another optimizer, without one of the first, after which steps end with the other."""

Method = TypeVar("Method", bound=Callable[..., Any])


def unnoticed(method: Method) -> Method:
    """A failure of ours is told once and ends the recording, never the script."""

    @functools.wraps(method)
    def call(self: Watcher, *args: Any, **kwargs: Any) -> Any:
        if self.on:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                self.give_up(error)
        return None

    return call  # type: ignore[return-value] # it takes the same arguments


class Watcher:
    """The state of the process. Its methods are called by the hooks."""

    def __init__(self, place: Place, at_end: Callable[[Recording], None] | None = None) -> None:
        self.on = True
        self.meter: Recorder | None = None
        """From the first training forward on."""

        self.record: Recording | None = None
        self.remove_hooks: Callable[[], None] = lambda: None
        self.stamp_buckets: Callable[[nn.Module, Recorder], None] = lambda model, meter: None
        self.before_backward: Callable[[], None] = lambda: None
        self.on_record: Callable[[], object] = lambda: None
        """Called when the process begins to be recorded."""

        self.remarks: list[str] = []
        """What could not be seen, in sentences."""

        self.before: dict[str, list[int]] = {}
        """kind -> bytes sent and received before the first step."""

        self.traffic = Traffic()
        """What the messages of the step in progress put on the wire, in closed form."""

        self.latest_flag: tuple[Any, Tensor] | None = None
        """The last message of one element in the background: in DDP's join() the number of ranks that take part."""

        self._inside = threading.local()
        self._place, self._at_end = place, at_end
        self._thread = threading.get_ident()
        self._trainable: WeakSet[nn.Module] = WeakSet()
        self._met: WeakSet[nn.Module] = WeakSet()
        self._phase = "data"
        self._in_step = self._tested = self._had_backward = False
        self._backwards = 0  # in progress
        self._samples = 0
        self._stepping: ReferenceType[Any] | None = None
        self._evaluated = False
        """Whether the closure of its step has been called: LBFGS calls it again on the same batch."""

        self._leading: ReferenceType[Any] | None = None
        """The optimizer whose steps end ours."""

        self._others = 0  # steps of other optimizers since it made one
        self._passes: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # iterator of a DataLoader -> its number
        self._passes_begun = self._pass = self._trained_pass = self._epoch = 0

    @property
    def in_backward(self) -> bool:
        return self._backwards > 0

    @property
    def in_its_thread(self) -> bool:
        """Whether this is the thread that trains. Models in other threads, such as replicas, belong to its calls."""
        return threading.get_ident() == self._thread

    # --- the model ---

    @unnoticed
    def model_called(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The outermost module is called."""
        if self.in_backward or not self._trains(module):
            return
        if not torch.is_grad_enabled():
            self._tested = self._tested or not self._in_step
            return
        if self.record is None:
            self._begin(module)
        assert self.meter and self.record
        if not self._in_step:
            if self._tested:
                self.meter.restart()
                self._phase = ""
            self._in_step, self._tested, self._had_backward, self._samples = True, False, False, 0
        if module not in self._met:
            self._met.add(module)
            self.stamp_buckets(module, self.meter)
        if not (self._stepping and self._evaluated):
            self._samples += self.record.samples(module, [args, kwargs])
        self._enter("forward")

    def _trains(self, module: nn.Module) -> bool:
        """Whether it has parameters to train; a loss or a transformation of the data has none."""
        if module in self._trainable:
            return True
        if any(parameter.requires_grad for parameter in module.parameters()):
            self._trainable.add(module)
            return True
        return False

    def _begin(self, module: nn.Module) -> None:
        from gradsync.meter.recorder import Recorder
        from gradsync.observe.recording import Recording

        device = next(parameter.device for parameter in module.parameters() if parameter.requires_grad)
        meter = Recorder(device)
        self.record = Recording(self, module, device, meter, self._place)
        meter.begin()
        self.meter = meter
        self.on_record()

    def remark(self, sentence: str) -> None:
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    # --- backward and the optimizer ---

    @unnoticed
    def backward_begins(self) -> None:
        if self.in_its_thread:
            self._backwards += 1  # that of a checkpoint is inside another
            if self._backwards == 1:
                self._had_backward = True
                self.before_backward()
                self._enter("backward")

    @unnoticed
    def backward_ends(self) -> None:
        if self.in_its_thread:
            self._backwards -= 1
            if not self._backwards:
                self._evaluated = self._stepping is not None
                self._enter("optimizer" if self._stepping else "other")

    @unnoticed
    def drains(self) -> None:
        """Backward has computed everything, and waits for buckets in flight."""
        self._enter("drain")

    @unnoticed
    def optimizer_steps(self, optimizer: Any) -> None:
        if self._stepping is None or self._stepping() in (None, optimizer):
            self._stepping, self._evaluated = ref(optimizer), False
            self._enter("optimizer")

    @unnoticed
    def optimizer_stepped(self, optimizer: Any) -> None:
        if self._stepping is None or self._stepping() is not optimizer:
            return  # it is called by another one
        self._stepping = None
        self._enter("other")
        leading = self._leading() if self._leading else None
        self._others = 0 if leading is optimizer else self._others + 1
        if leading is None or self._others > TAKES_OVER:
            self._leading, leading = ref(optimizer), optimizer
        if leading is optimizer:
            self._step_ends(optimizer)

    @unnoticed
    def scaler_updated(self) -> None:
        """GradScaler may have skipped the optimizer's step."""
        if self._in_step and self._had_backward:
            self._step_ends(self._leading() if self._leading else None)

    def _step_ends(self, optimizer: Any) -> None:
        if not self.meter or not self.record or not self._in_step:
            return
        self.meter.finish_calls()
        if self._epoch == 0 or self._pass != self._trained_pass:
            self._epoch, self._trained_pass = self._epoch + 1, self._pass
        facts = {"epoch": self._epoch, **({"samples": self._samples} if self._samples else {})}
        was_open = self.record.is_open
        self.record.step({**facts, **self.meter.end()}, optimizer)
        if not was_open:
            self.meter.restart()  # what it takes to begin a record is no part of the second step
        self._in_step = self._had_backward = False
        self.traffic, self._phase = Traffic(), ""
        self._enter("data")

    # --- data ---

    @unnoticed
    def pass_begins(self, iterator: Any) -> None:
        """A DataLoader is iterated over from its beginning."""
        self._passes_begun += 1
        self._passes[iterator] = self._passes_begun

    @contextmanager
    def loading(self, iterator: Any) -> Iterator[None]:
        """A DataLoader makes a batch."""
        if not self.on or not self.in_its_thread:
            yield
            return
        before = self._phase
        self._enter("data")
        try:
            yield
        finally:
            self._pass = self._passes.get(iterator, 0)
            self._enter(before)

    # --- messages ---

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Messages that are sent inside another one are part of it."""
        before, self._inside.now = self.within, True
        try:
            yield
        finally:
            self._inside.now = before

    @property
    def within(self) -> bool:
        return getattr(self._inside, "now", False)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The script waits for a message that was sent in the background."""
        if not self.on or self.meter is None or not self.in_its_thread:
            yield
            return
        before = self._phase
        self._enter("drain")
        try:
            yield
        finally:
            self._enter(before)

    def kind_of(self, tensor: Tensor | None) -> str:
        """Gradients are what is sent between the beginning of backward and the end of the step."""
        if tensor is None or not tensor.is_floating_point() or tensor.dim() == 0:
            return "control"
        if self._in_step:
            return "gradients" if self._had_backward else "control"
        return "parameters"

    def message(self, operation: str, kind: str, sent: int, received: int, overlapped: bool) -> Call | None:
        """This rank has arrived at an operation."""
        if self.meter is None:
            total = self.before.setdefault(kind, [0, 0])
            total[0] += sent
            total[1] += received
            return None
        return self.meter.start(operation, kind, sent, received, overlapped)

    def arrived(self, call: Call | None, on_host: bool = False) -> None:
        """The operation is over; it may have been counted to the end of its step before."""
        if call is not None and call.end is None and self.meter is not None:
            self.meter.finish(call, on_host)

    def _enter(self, phase: str) -> None:
        if self.meter is not None and phase != self._phase:
            self.meter.phase(phase)
        self._phase = phase

    # --- the end ---

    @unnoticed
    def group_ends(self) -> None:
        """The sockets will be closed: their counts are lost with them."""
        if self.record:
            self.record.group_ends()

    @undisturbed
    @unnoticed
    def ends(self, error: BaseException | None = None) -> None:
        record, self.record = self.record, None
        self.meter = None
        if record:
            record.close(error)
            if self._at_end and record.is_open:
                self._at_end(record)

    def give_up(self, error: Exception) -> None:
        told = (
            f"recording ended after step {self.record.steps if self.record else 0}: {type(error).__name__}: {error}"
        )
        print(f"gradsync watch: {told}. The script goes on.", file=sys.stderr)
        self.remarks.append(told)
        record, self.record, self.meter = self.record, None, None
        self.on = False
        try:
            self.remove_hooks()
            if record:
                record.close()
        except Exception:  # said already
            return
