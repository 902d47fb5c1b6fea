"""The losses: each gives the sum over the samples, so that N workers can make one mean of the global batch.

For the built-in ones a sample's loss is the mean over its elements: its tokens, its pixels, its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from gradsync.config.plugin import is_reference, resolve, users_error
from gradsync.config.task import BCE, CROSS_ENTROPY, MSE
from gradsync.errors import InputError
from gradsync.train.shapes import alike, by, class_axis, classes_of, dtype_name, numbers_of, tensor_of, wrong_class

NO_LABEL = torch.iinfo(torch.int64).min  # by default torch silently ignores samples labelled -100

Loss = Callable[[Any, Any, int], Tensor]
"""(what the model returned, target, number of samples) -> sum over the samples"""


def loss_sum(outputs: Any, target: Any, samples: int = 0, *, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy. Only types and shapes are checked, which costs nothing on a GPU either."""
    target = classes_of(target)
    outputs = tensor_of(outputs)
    axis = class_axis(outputs, target)
    classes = outputs.shape[axis]
    positions = max(1, target[:1].numel())
    if axis == -1 and target.dim() > 1:
        outputs, target = outputs.reshape(-1, classes), target.reshape(-1)
    try:
        total = cross_entropy(
            outputs, target, reduction="sum", label_smoothing=label_smoothing, ignore_index=NO_LABEL
        )
    except IndexError:  # on a CPU; a GPU raises an error of its own
        lowest, highest = (int(label) for label in target.aminmax())
        raise wrong_class(lowest if lowest < 0 else highest, classes) from None
    return total / positions if positions > 1 else total


def squared_error(outputs: Any, target: Any, samples: int) -> Tensor:
    found = numbers_of(outputs)
    return mse_loss(found, alike(found, target, MSE), reduction="sum") / elements(found)


def binary(outputs: Any, target: Any, samples: int) -> Tensor:
    found = numbers_of(outputs)
    wanted = alike(found, target, BCE)
    if wanted.device.type == "cpu" and wanted.numel() and not 0 <= wanted.min() <= wanted.max() <= 1:
        raise InputError("--loss bce needs targets from 0 to 1, the probability of yes: others were found.")
    return binary_cross_entropy_with_logits(found, wanted, reduction="sum") / elements(found)


def elements(outputs: Tensor) -> int:
    """Of one sample."""
    return max(1, outputs[:1].numel()) if outputs.dim() else 1


class UsersLoss:
    """A function of (outputs, target) that gives the mean over the samples, or a class whose instance does."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name = name
        found: Any = resolve(name, "loss")
        try:
            self._function = found() if isinstance(found, type) else found
        except Exception as error:
            raise users_error(f"--loss {name} raised an error", error) from error
        if isinstance(self._function, nn.Module):
            self._function.to(device)

    def __call__(self, outputs: Any, target: Any, samples: int) -> Tensor:
        try:
            found = self._function(outputs, target)
        except Exception as error:
            raise users_error(f"--loss {self.name} raised an error", error) from error
        wanted = f"--loss {self.name} must return a tensor of one number, the mean over the samples of the batch"
        if not isinstance(found, Tensor):
            raise InputError(f"{wanted}: it returned {type(found).__name__}.")
        if found.numel() != 1 or not found.is_floating_point():
            raise InputError(
                f"{wanted}: it returned one of shape {by(found.shape)}, of type {dtype_name(found.dtype)}."
            )
        if torch.is_grad_enabled() and not found.requires_grad:
            raise InputError(f"{wanted}, with its gradient: it returned a number that does not depend on the model.")
        return found.reshape(()) * samples


def find_loss(name: str, device: torch.device, label_smoothing: float = 0.0) -> Loss:
    if is_reference(name):
        return UsersLoss(name, device)
    if name == CROSS_ENTROPY:
        return lambda outputs, target, samples: loss_sum(outputs, target, label_smoothing=label_smoothing)
    return {MSE: squared_error, BCE: binary}[name]
