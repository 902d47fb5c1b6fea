"""What outputs and targets must look like for the built-in losses and metrics, and which sentence refuses others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gradsync.errors import InputError

OTHER_LOSSES = (
    "HINT: --loss mse is for regression, --loss bce for yes or no; or give your own, --loss file.py:function."
)
CONVENTION = (
    "samples × classes; with a class for every token of a sequence, samples × tokens × classes; with one for every "
    "pixel, samples × classes × height × width"
)


def tensor_of(outputs: Any) -> Tensor:
    """The outputs of the model: a tensor, or the ``logits`` of an object or a dict that has them."""
    found = outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", outputs)
    if isinstance(found, Tensor):
        return found
    raise InputError(
        f"the model returns a {type(outputs).__name__}: the built-in losses and metrics take one tensor, or an "
        "object or a dict with logits. HINT: --loss file.py:function takes whatever the model returns."
    )


def numbers_of(outputs: Any) -> Tensor:
    """The same in float32 at least: what autocast computed in 16 bits is compared with targets that have more."""
    found = tensor_of(outputs)
    return found.to(torch.promote_types(found.dtype, torch.float32))


def target_of(target: Any, wanted: str) -> Tensor:
    if isinstance(target, Tensor):
        return target
    entry = target[0] if isinstance(target, (list, tuple)) and target else target
    raise InputError(f"labels are of type {type(entry).__name__}: {wanted}. {OTHER_LOSSES}")


def classes_of(target: Any) -> Tensor:
    """The target, if it is whole numbers; their values are seen only by the loss."""
    wanted = "for cross-entropy each must be a class, a whole number from 0"
    found = target_of(target, wanted)
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise InputError(f"labels are of type {dtype_name(found.dtype)}: {wanted}. {OTHER_LOSSES}")
    return found


def class_axis(outputs: Tensor, target: Tensor) -> int:
    """The axis of the classes: the last for one class per sample or per token, else the second, as in torch.

    The number of dimensions decides, so that a square batch is never read the wrong way.
    """
    axis = -1 if target.dim() <= 2 else 1
    others = [size for number, size in enumerate(outputs.shape) if number != axis % max(1, outputs.dim())]
    if outputs.dim() != target.dim() + 1 or others != list(target.shape) or outputs.shape[axis] < 2:
        raise InputError(
            f"the model's outputs have the shape {by(outputs.shape)}, and the labels {by(target.shape)}: for "
            f"cross-entropy the outputs must be {CONVENTION}, with two classes or more. {OTHER_LOSSES}"
        )
    return axis


def alike(outputs: Tensor, target: Any, what: str) -> Tensor:
    """The target in the shape and the number format of the outputs. Only dimensions of 1 may differ.

    Samples × 1 beside samples would otherwise become samples × samples.
    """
    found = target_of(target, f"{what} compares numbers")
    if [size for size in found.shape if size > 1] != [size for size in outputs.shape if size > 1]:
        raise InputError(
            f"the model's outputs have the shape {by(outputs.shape)}, and the targets {by(found.shape)}: {what} "
            "needs a target for every output, in the same shape."
        )
    return found.reshape(outputs.shape).to(outputs.dtype)


def wrong_class(label: int, classes: int) -> InputError:
    return InputError(
        f"a label is {label}, but the model has {classes} outputs: labels must be from 0 to {classes - 1}. "
        "HINT: if the training set has a list named classes, a built-in model gets an output for each."
    )


def by(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "of a single number"


def dtype_name(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")
