"""Cross-entropy, the only loss: for outputs of samples × classes, and one class for each sample.

torch's also accepts probabilities or regression targets of the right shape, and a class for each of many positions in
a sample. Loss and accuracy would then not mean what the record says they do: such targets are refused.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gradsync.errors import InputError

NO_LABEL = torch.iinfo(torch.int64).min  # by default torch silently ignores samples labelled -100
WANTED = "gradsync trains with cross-entropy, for which"


def loss_sum(outputs: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """The sum over the samples. Only types and shapes are checked, which costs nothing on a GPU either."""
    refuse_labels(labels.dtype, labels.shape[1:])
    refuse_outputs(outputs, len(labels))
    try:
        return cross_entropy(outputs, labels, reduction="sum", label_smoothing=label_smoothing, ignore_index=NO_LABEL)
    except IndexError:  # on a CPU; a GPU raises an error of its own
        lowest, highest = (int(label) for label in labels.aminmax())
        raise wrong_class(lowest if lowest < 0 else highest, outputs.shape[1]) from None


def refuse_labels(kind: torch.dtype, shape: torch.Size) -> None:
    """Refuse labels that are not one class per sample; ``shape``: that of the label of one sample."""
    if kind.is_floating_point or kind.is_complex or kind == torch.bool:
        raise InputError(
            f"labels are of type {str(kind).removeprefix('torch.')}: {WANTED} each must be a class, a whole number "
            "from 0. Other losses, such as those for regression, are not supported yet."
        )
    if shape:
        raise InputError(
            f"a label has the shape {by(shape)}: {WANTED} every sample must have one class, a whole number from 0. "
            "Losses over several classes per sample, such as those of tokens or pixels, are not supported yet."
        )


def refuse_outputs(outputs: Any, samples: int) -> None:
    if not isinstance(outputs, Tensor):
        raise InputError(f"the model returns a {type(outputs).__name__}: {WANTED} it must return one tensor.")
    if outputs.dim() != 2 or len(outputs) != samples or outputs.shape[1] < 2:
        raise InputError(
            f"the model's outputs have the shape {by(outputs.shape)} for {samples} samples: {WANTED} it must be "
            "samples × classes, with two classes or more."
        )


def wrong_class(label: int, classes: int) -> InputError:
    return InputError(
        f"a label is {label}, but the model has {classes} outputs: labels must be from 0 to {classes - 1}. "
        "HINT: if the training set has a list named classes, a built-in model gets an output for each."
    )


def by(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "of a single number"
