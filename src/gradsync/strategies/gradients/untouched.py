"""Notices gradients that were changed before the workers agreed on them: clipped, for instance, each by its norm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from gradsync.errors import InputError
from gradsync.strategies.gradients.on_its_way import HOW_TO_CLIP

FIRST_STEPS = 3  # whose values are compared, too: a loop does the same in every step


class Noted(NamedTuple):
    """A gradient as backward has left it."""

    gradient: Tensor
    version: int
    largest: Tensor | None

    @classmethod
    def of(cls, gradient: Tensor, *, with_values: bool) -> Noted:
        return cls(gradient, gradient._version, largest(gradient) if with_values else None)

    def is_still(self, gradient: Tensor) -> bool:
        return (
            gradient is self.gradient
            and gradient._version == self.version
            and (self.largest is None or torch.allclose(largest(gradient), self.largest, 0.0, 0.0, equal_nan=True))
        )


class Untouched:
    """Compares every gradient with the one after backward.

    Another tensor in its place is noticed, and so is every change in place that counts up the tensor's version. One
    through ``.data`` does not: in the first steps the largest magnitude is compared, too, which clipping changes.
    """

    def __init__(self, parameters: Sequence[tuple[str, nn.Parameter]]) -> None:
        self._parameters = parameters
        self._steps = 0
        self._noted: dict[int, Noted] = {}
        self._hooks: list[RemovableHandle] = [
            parameter.register_post_accumulate_grad_hook(partial(self._note, number))
            for number, (_, parameter) in enumerate(parameters)
        ]

    def _note(self, number: int, parameter: nn.Parameter) -> None:
        assert parameter.grad is not None
        self._noted[number] = Noted.of(parameter.grad, with_values=self._steps < FIRST_STEPS)

    def check(self, strategy: str) -> None:
        """Refuse a step whose gradients were changed since the last backward."""
        noted, self._noted = self._noted, {}
        self._steps += 1
        for number, (name, parameter) in enumerate(self._parameters):
            if number in noted and parameter.grad is not None and not noted[number].is_still(parameter.grad):
                raise InputError(
                    f"the gradient of parameter {name} was changed between backward and sync.step(): with {strategy} "
                    "it is this worker's own until the workers agree, so that each would clip or unscale by itself, "
                    f"which is not what one process computes. {HOW_TO_CLIP}"
                )

    def forget(self) -> None:
        """The gradients of the last backward are not those of a step."""
        self._noted = {}

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self.forget()


def largest(gradient: Tensor) -> Tensor:
    """Exact whatever the order in which it is found. A gradient that is sparse or empty has none."""
    if gradient.layout is not torch.strided or not gradient.numel():
        return gradient.new_zeros(())
    return torch.linalg.vector_norm(gradient.detach(), float("inf"))
