"""In place of forward and backward, on a rank without a batch: gradients of zero, ready in the order of backward."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gradsync.strategies.base import Strategy


def contribute_nothing(sync: Strategy) -> None:
    """Whatever a strategy does when gradients become ready, it does here, too."""
    called = sync.forward
    if not isinstance(called, DistributedDataParallel):
        backward(views(sync.model))
        return
    called.module = ParametersOnly(sync.model)  # its reducer is prepared by a forward of its own
    try:
        backward(called())
    finally:
        called.module = sync.model


class ParametersOnly(nn.Module):
    """Returns the trainable parameters of a model, which are not registered here."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._views = lambda: views(model)

    def forward(self) -> list[Tensor]:
        return self._views()


def views(model: nn.Module) -> list[Tensor]:
    return [parameter.view_as(parameter) for parameter in model.parameters() if parameter.requires_grad]


def backward(outputs: list[Tensor]) -> None:
    torch.autograd.backward(outputs, [torch.zeros_like(output) for output in outputs])
