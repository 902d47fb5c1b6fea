"""The contract: a synchronization strategy is one way for workers to agree on the next model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, Literal
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from gradsync.comm import Comm, Traffic
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.strategies.state.buffers import BufferSync
from gradsync.strategies.state.sync_batchnorm import SyncBatchNorm

_attached_to: WeakValueDictionary[int, Strategy] = WeakValueDictionary()
"""The strategy attached to each model, by the id of the model, which stays alive as long as its strategy."""


def strategy_of(model: nn.Module) -> Strategy | None:
    """The strategy that is attached to this model."""
    return _attached_to.get(id(model))


def release(model: nn.Module) -> None:
    """Detach the strategy that this model has, if any: a model has one at a time."""
    if attached := strategy_of(model):
        attached.detach()


class Strategy:
    """Owns both halves of a step: agreeing on the gradients, and the update.

    A subclass adds its options as plain keyword arguments and overrides ``agree``, or ``attach`` and ``update`` if it
    communicates at another time. For whatever it installs in ``attach``, it registers the removal with ``on_detach``.
    Call it like the model, and call ``step`` after ``backward``; or ``agree``, then clip, then ``update``.
    """

    exact: ClassVar[bool] = True
    """N workers compute the same model as one; if not, ``verify`` reports a distance instead of a verdict."""

    has_servers: ClassVar[bool] = False
    """Some ranks are parameter servers; such a strategy derives from ``strategies.server.base.ServerStrategy``."""

    in_one_process: ClassVar[bool] = False
    """All workers live in one process."""

    over_mpi: ClassVar[bool] = True
    """Its messages can go over MPI: they are all sent by ``comm``."""

    after_backward: ClassVar[Literal["own", "final", "in flight"]] = "own"
    """What a gradient is between ``backward`` and ``agree``: of this worker's share of the batch, so that clipping it
    there differs from what one process does; what the update will use; or not to be touched."""

    default_buffers: ClassVar[Buffers] = "local"
    """What happens to BatchNorm's running statistics unless --buffers says otherwise."""

    def __init__(self, comm: Comm, *, buffers: Buffers | None = None) -> None:
        self.comm = comm
        self.buffers: Buffers = buffers or self.default_buffers
        self.model: nn.Module
        self.optimizer: Optimizer
        self.forward: nn.Module
        """What is called when the strategy is called: the model, or what ``attach`` wrapped around it."""

        self._undo: list[Callable[[], object]] = []

    # --- what an author overrides, as needed ---

    def attach(self, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        """Give every rank the parameters and buffers of rank 0, and return the module to call forward on.

        A strategy that was attached before, this one or another one on the same model, is detached first.
        """
        self.detach()
        release(model)
        self.model, self.optimizer, self.forward = model, optimizer, model
        with torch.no_grad():
            for parameter in model.parameters():
                self.comm.broadcast(parameter, kind="parameters")
            for buffer in model.buffers():
                self.comm.broadcast(buffer, kind="buffers")
        self._buffer_sync = BufferSync(model, self.comm, self.buffers)
        self._trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        _attached_to[id(model)] = self
        self.on_detach(partial(_attached_to.pop, id(model), None))
        return model

    def agree(self) -> None:
        """Replace every gradient by its mean over all ranks."""

    def update(self, scaler: GradScaler | None = None) -> None:
        """Update the parameters, synchronize buffers, clear the gradients.

        ``scaler``: the gradients are of a loss that it has scaled; it makes the update, or skips it.
        """
        phase = self.comm.meter.phase
        phase("optimizer")
        if scaler is None:
            self.optimizer.step()
        else:
            scaler.step(self.optimizer)
            scaler.update()
        phase("other")
        self._buffer_sync()
        self.optimizer.zero_grad()

    def accumulating(self) -> AbstractContextManager[object]:
        """A context for forward and backward of all micro-batches but the last: gradients add up, nothing is sent."""
        return nullcontext()

    def state_dict(self) -> dict[str, Any]:
        """What the strategy keeps between steps, apart from the model and the optimizer's state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            raise InputError(f"{type(self).__name__} keeps no state between steps, but was given {', '.join(state)}.")

    def gradient_traffic(self, count: int) -> Traffic | None:
        """Bytes this rank sends and receives per step to agree on ``count`` bytes of gradients; None: not known."""
        return None

    @property
    def replicas_differ(self) -> bool:
        """Whether the ranks may hold different models, so that each has a test accuracy of its own."""
        return self._buffer_sync.leaves_ranks_different

    # --- what an author calls ---

    def gradients(self) -> list[Tensor]:
        """The gradients of all trainable parameters, in the same order on every rank.

        A parameter without a gradient is refused: the ranks that have one would wait for this rank forever.
        """
        found = []
        for name, parameter in self._trainable:
            if parameter.grad is None:
                raise without_gradient(name)
            found.append(parameter.grad)
        return found

    def on_detach(self, undo: Callable[[], object]) -> None:
        """Have ``undo`` called by ``detach``, the last registered first: ``self.on_detach(handle.remove)``."""
        self._undo.append(undo)

    # --- what a training loop calls ---

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def step(self) -> None:
        """After backward: agree on the gradients, then update."""
        self.comm.meter.phase("agree")
        self.agree()
        self.update()

    def detach(self) -> None:
        """Remove every hook and wrapper, so that the model trains as if it had never been attached.

        No message is sent. Detaching what is not attached does nothing.
        """
        while self._undo:
            self._undo.pop()()
        if hasattr(self, "model"):
            self.forward = self.model


def wire_bytes(sync: Strategy) -> Traffic | None:
    """Bytes this rank sends and receives per step in closed form, buffers included; None: not known."""
    if sync.comm.size == 1:
        return Traffic()
    traffic = sync.gradient_traffic(sum(p.numel() * p.element_size() for _, p in sync._trainable))
    if traffic is None:
        return None
    layers = [layer for layer in sync.model.modules() if isinstance(layer, SyncBatchNorm)]
    return sum((layer.traffic() for layer in layers), traffic + sync._buffer_sync.traffic())


def without_gradient(name: str) -> InputError:
    return InputError(
        f"parameter {name} got no gradient in this step. Every trainable parameter must be used in every step on "
        "every rank. HINT: freeze it with requires_grad_(False), use it, or let attach count it as zero: "
        'unused="zero".'
    )
