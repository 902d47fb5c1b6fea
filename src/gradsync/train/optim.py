"""Update rules by name."""

from __future__ import annotations

from torch import nn
from torch.optim import SGD, Adam, Optimizer


def make(name: str, model: nn.Module, *, lr: float, momentum: float, weight_decay: float) -> Optimizer:
    # fused: one kernel instead of one per parameter and operation, the same update.
    if name == "adam":
        return Adam(model.parameters(), lr, weight_decay=weight_decay, fused=True)
    return SGD(model.parameters(), lr, momentum=momentum, weight_decay=weight_decay, fused=True)
