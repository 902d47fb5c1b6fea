"""Notices gradients that were changed before the workers agreed on them: clipped, for instance, each by its norm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import nn
from torch.utils.hooks import RemovableHandle

from gradsync.errors import InputError
from gradsync.strategies.gradients.on_its_way import HOW_TO_CLIP


class Untouched:
    """Compares the version of every gradient, which each change in place counts up, with the one after backward."""

    def __init__(self, parameters: Sequence[tuple[str, nn.Parameter]]) -> None:
        self._parameters = parameters
        self._versions: list[int | None] = [None] * len(parameters)
        self._hooks: list[RemovableHandle] = [
            parameter.register_post_accumulate_grad_hook(partial(self._note, number))
            for number, (_, parameter) in enumerate(parameters)
        ]

    def _note(self, number: int, parameter: nn.Parameter) -> None:
        assert parameter.grad is not None
        self._versions[number] = parameter.grad._version

    def check(self, strategy: str) -> None:
        """Refuse a step whose gradients were changed since the last backward."""
        noted, self._versions = self._versions, [None] * len(self._versions)
        for (name, parameter), version in zip(self._parameters, noted, strict=True):
            if version is not None and parameter.grad is not None and parameter.grad._version != version:
                raise InputError(
                    f"the gradient of parameter {name} was changed between backward and sync.step(): with {strategy} "
                    "it is this worker's own until the workers agree, so that each would clip or unscale by itself, "
                    f"which is not what one process computes. {HOW_TO_CLIP}"
                )

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()
