"""Gradients or parameters in one block of memory: sent as one message, and not copied on return."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Packed:
    """A flat block with a place for each parameter or its gradient, in the order given."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.block = parameters[0].new_zeros(sum(parameter.numel() for parameter in parameters))
        self._places: dict[nn.Parameter, Tensor] = {}
        start = 0
        for parameter in parameters:
            self._places[parameter] = self.block.as_strided(parameter.shape, parameter.stride(), start)
            start += parameter.numel()

    @property
    def parameters(self) -> list[nn.Parameter]:
        return list(self._places)

    def take(self, parameter: nn.Parameter, share: float) -> None:
        """Copy a gradient, multiplied by ``share``, to its place: averaging needs no pass of its own."""
        assert parameter.grad is not None
        torch.mul(parameter.grad, share, out=self._places[parameter])

    def give_back(self) -> None:
        """The places become the gradients."""
        for parameter, place in self._places.items():
            parameter.grad = place

    def hold_parameters(self) -> None:
        """The places become the memory of the parameters."""
        for parameter, place in self._places.items():
            place.copy_(parameter.data)
            parameter.data = place


def same_kind(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Groups of consecutive parameters with the same number format and device, which can share a block."""
    groups: list[list[nn.Parameter]] = []
    for parameter in parameters:
        kind = (parameter.dtype, parameter.device)
        if groups and (groups[-1][0].dtype, groups[-1][0].device) == kind:
            groups[-1].append(parameter)
        else:
            groups.append([parameter])
    return groups
