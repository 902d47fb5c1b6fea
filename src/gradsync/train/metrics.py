"""The metrics: each gives a sum over the samples, so that the shares of the ranks add up.

What is summed for perplexity is the cross-entropy, and for rmse the squared error; src/gradsync/ledger/summary makes
the figure of their mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradsync.config.plugin import is_reference, resolve, users_error
from gradsync.config.task import ACCURACY, BCE, PERPLEXITY, RMSE
from gradsync.errors import InputError
from gradsync.train.loss import elements, loss_sum, squared_error
from gradsync.train.shapes import alike, class_axis, classes_of, numbers_of, tensor_of

Metric = Callable[[Any, Any, int], Tensor | float]
"""(what the model returned, target, number of samples) -> sum over the samples"""


def right_classes(outputs: Any, target: Any, samples: int) -> Tensor:
    """How many samples are classified correctly; with several positions in a sample, the share of those."""
    labels, found = classes_of(target), tensor_of(outputs)
    right = (found.argmax(class_axis(found, labels)) == labels).sum()
    positions = labels[:1].numel()
    return right / positions if positions > 1 else right


def right_sides(outputs: Any, target: Any, samples: int) -> Tensor:
    """Yes where the logit is above 0, and the target above one half."""
    found = numbers_of(outputs)
    right = ((found > 0) == (alike(found, target, ACCURACY) > 0.5)).sum()
    return right / elements(found) if elements(found) > 1 else right


def right(outputs: Any, target: Any, samples: int) -> Tensor:
    """For a loss that is the user's own: whole numbers are classes."""
    is_classes = isinstance(target, Tensor) and not (target.is_floating_point() or target.dtype == torch.bool)
    return (right_classes if is_classes else right_sides)(outputs, target, samples)


class UsersMetric:
    """A function of (outputs, target) that gives a number, averaged over the samples."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._function = resolve(name, "metric")

    def __call__(self, outputs: Any, target: Any, samples: int) -> float:
        try:
            found = self._function(outputs, target)
        except Exception as error:
            raise users_error(f"--metric {self.name} raised an error", error) from error
        try:
            return float(found) * samples
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                f"--metric {self.name} must return a number, averaged over the samples of the batch: it returned "
                f"{type(found).__name__}."
            ) from None


def find_metric(name: str, loss: str) -> Metric:
    if is_reference(name):
        return UsersMetric(name)
    if name == ACCURACY:
        return right if is_reference(loss) else right_sides if loss == BCE else right_classes
    return {PERPLEXITY: loss_sum, RMSE: squared_error}[name]
