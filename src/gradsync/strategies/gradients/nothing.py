"""In place of forward, backward and update on a rank without a batch, so that the others can make their step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from gradsync.strategies.base import Strategy


def contribute_nothing(sync: Strategy) -> None:
    """Gradients of zero, ready in the order of backward: what a strategy does when they are, it does here, too."""
    called = sync.forward
    if not isinstance(called, DistributedDataParallel):
        outputs = views(sync.model)
        torch.autograd.backward(outputs, [torch.zeros_like(output) for output in outputs])
        return
    called.module = WithoutGradients(sync.model)  # its reducer is prepared by a forward of its own
    try:
        called().backward()
    finally:
        called.module = sync.model


def views(model: nn.Module) -> list[Tensor]:
    return [parameter.view_as(parameter) for parameter in model.parameters() if parameter.requires_grad]


class WithoutGradients(nn.Module):
    """In place of a model, none of whose parameters has a gradient. They are not registered here.

    DDP sends zeros for these, but does not count them as used, as it does with a gradient of zero.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._views = lambda: views(model)

    def forward(self) -> Tensor:
        return NoGradient.apply(*self._views())


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        return inputs[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        return (None,) * len(ctx.needs_input_grad)


def update_nothing(sync: Strategy) -> None:
    """Take part in the messages of an update without making it."""
    optimizer = sync.optimizer
    sync.optimizer = cast(Optimizer, AtRest(optimizer))
    try:
        sync.update()
    finally:
        sync.optimizer = optimizer


class AtRest:
    """An optimizer that makes no step. Everything else is done by the optimizer itself."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def step(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


def note_present(sync: Strategy, present: Sequence[int]) -> None:
    """The ranks with a batch in this step: its buffers are theirs."""
    sync._buffer_sync.present = present


def update_sends(sync: Strategy) -> bool:
    """Whether other ranks take part in its updates."""
    return type(sync).update is not Strategy.update or sync._buffer_sync.sends
