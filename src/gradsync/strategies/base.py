"""The contract: a strategy is one way for workers to agree on the next model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gradsync.comm import Comm, Traffic
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.strategies.buffers import BufferSync
from gradsync.strategies.sync_batchnorm import SyncBatchNorm


@dataclass(frozen=True)
class Roles:
    """Workers are ranks 0 to ``workers`` − 1; servers are the given ranks, which may be those of workers."""

    workers: int = 1
    servers: tuple[int, ...] = (0,)
    updates: int = 1
    """How many updates of the parameters the run is planned to have."""


class Strategy:
    """Owns both moments of a step: agreeing on the gradient, and the update.

    A subclass adds its options as plain keyword arguments and overrides ``agree``, or ``attach`` and ``step``
    where it agrees at another moment. Call it like the model, then ``step`` after ``backward``.

    Between ``backward`` and ``step`` a gradient is this worker's own, of its share of the batch: to clip or read it
    there is not what one process does. ddp's are the mean already; bucketed's are on their way, and raise. Every
    strategy has the mean where the optimizer's step begins (``optimizer.register_step_pre_hook``).
    """

    default_buffers: ClassVar[Buffers] = "local"
    lossy: ClassVar[bool] = False
    """N workers compute something else than one, by design: ``verify`` gives a distance and no pass."""

    asynchronous: ClassVar[bool] = False
    """Several workers compute something else than one, by design, and end at their own times; one does not."""

    takes_roles: ClassVar[bool] = False
    """The workers are not simply the ranks: the constructor also takes ``roles``."""

    has_servers: ClassVar[bool] = False

    start_same = True
    """Whether every rank begins with rank 0's parameters and buffers; otherwise it keeps its own."""

    is_worker = True
    finished = False
    """A server has told this worker that the run is over."""

    loss_scale = 1.0
    """What the loss must be multiplied by before backward; other than 1 only in runs that are measured."""

    def __init__(self, comm: Comm, *, buffers: Buffers | None = None) -> None:
        self.comm = comm
        self.buffers: Buffers = buffers or self.default_buffers
        self.model: nn.Module
        self.optimizer: Optimizer

    def attach(self, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        """Give every rank the parameters and buffers of rank 0; return what to call forward on."""
        self.model, self.optimizer = model, optimizer
        if self.start_same:
            with torch.no_grad():
                for parameter in model.parameters():
                    self.comm.broadcast(parameter, kind="parameters")
                for buffer in model.buffers():
                    self.comm.broadcast(buffer, kind="buffers")
        self._buffer_sync = BufferSync(model, self.comm, self.buffers)
        self._trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._forward = model
        return model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(*args, **kwargs)

    def agree(self) -> None:
        """Leave in every gradient the mean over all ranks."""

    def step(self) -> None:
        """After backward: agree, update, settle the buffers, clear the gradients."""
        phase = self.comm.meter.phase
        phase("agree")
        self.agree()
        phase("optimizer")
        self.optimizer.step()
        phase("other")
        self._buffer_sync()
        self.optimizer.zero_grad()

    def accumulating(self) -> AbstractContextManager[object]:
        """Around forward and backward of all but the last piece of a batch: gradients add up, nothing is sent."""
        return nullcontext()

    def begin(self, note: Callable[..., None]) -> None:
        """Before the first step. ``note``: where a server puts what it has to tell, a kind and values by name."""

    def finish(self) -> None:
        """After the last step."""

    def detach(self) -> None:
        """Let go of what is wrapped around the model, which is called bare from now on."""
        self._forward = self.model

    def facts(self) -> dict[str, Any]:
        """What the record should hold of this step beside what everybody's does."""
        return {}

    def gradient_traffic(self, count: int) -> Traffic | None:
        """Bytes this rank sends and receives to agree on ``count`` bytes of gradients; None: not known."""
        return None

    def wire_bytes(self) -> Traffic | None:
        """What one step puts on the wire at this rank, in closed form; None: not known."""
        if self.comm.size == 1:
            return Traffic()
        traffic = self.gradient_traffic(sum(p.numel() * p.element_size() for _, p in self._trainable))
        if traffic is None:
            return None
        layers = [layer for layer in self.model.modules() if isinstance(layer, SyncBatchNorm)]
        return sum((layer.traffic() for layer in layers), traffic + self._buffer_sync.traffic())

    @property
    def replicas_differ(self) -> bool:
        """Whether ranks may hold different models, so that each has an accuracy of its own."""
        return self._buffer_sync.leaves_ranks_different or (self.comm.size > 1 and not self.start_same)

    def serve(self) -> None:
        """What a server rank does instead of training; only strategies with servers have one."""
        raise TypeError(f"{type(self).__name__} has no server ranks")

    def state_dict(self) -> dict[str, Any]:
        """What this strategy remembers between steps, beside the model and the optimizer."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert not state, f"{type(self).__name__} keeps nothing between steps"

    def gradients(self) -> list[Tensor]:
        """The gradient of every trainable parameter, the same list on every rank.

        A parameter one rank did not use would leave the others waiting for its gradient for ever: refuse.
        """
        found = []
        for name, parameter in self._trainable:
            if parameter.grad is None:
                raise InputError(
                    f"parameter {name} got no gradient in this step. Every trainable parameter must be used in "
                    "every step on every rank. HINT: freeze it with requires_grad_(False), or use it."
                )
            found.append(parameter.grad)
        return found
