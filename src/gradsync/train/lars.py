"""LARS (You et al., 2017): SGD in which every layer takes a step in proportion to the norm of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

TRUST = 0.001


class LARS(Optimizer):
    """For each parameter w with gradient g, and weight decay β:

    1. local rate = trust · |w| / (|g| + β·|w|); 1 for biases and BatchNorm parameters, without weight decay;
    2. momentum v ← m·v + local rate · (g + β·w);
    3. w ← w − lr·v.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.9, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        direction = gradient
        if parameter.dim() > 1:
            decay = group["weight_decay"]
            size, slope = parameter.norm(), gradient.norm()
            local_rate = TRUST * size / (slope + decay * size)
            usable = (size > 0) & (slope > 0)
            direction = (gradient + decay * parameter) * torch.where(usable, local_rate, torch.ones_like(size))
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = direction.clone()
        else:
            state["momentum"].mul_(group["momentum"]).add_(direction)
        parameter.sub_(state["momentum"] * group["lr"])
