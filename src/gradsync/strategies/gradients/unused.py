"""Parameters without a gradient in a step, such as those of a branch that was not taken.

They count as a gradient of zero where another rank has used them. What no rank has used has no gradient at all, as in
one process: its momentum and its weight decay rest. One small message per step tells which is which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from gradsync.comm import Comm

Unused = Literal["refuse", "zero"]


def fill(parameters: Sequence[nn.Parameter]) -> list[bool]:
    """Which of them have a gradient; the others get one of zero."""
    has_one = [parameter.grad is not None for parameter in parameters]
    for parameter, has in zip(parameters, has_one, strict=True):
        if not has:
            parameter.grad = torch.zeros_like(parameter)
    return has_one


def clear(parameters: Sequence[nn.Parameter], has_one: Sequence[bool], comm: Comm) -> None:
    """After agreeing: take the gradient from every parameter that no rank has used. All ranks call this."""
    device = comm.carrier(parameters[0].device)
    used = torch.tensor(has_one, dtype=torch.float32, device=device)
    comm.all_reduce(used, kind="control")
    for parameter, count in zip(parameters, used.tolist(), strict=True):
        if not count:
            parameter.grad = None
