"""Batches of any structure: what goes to the model, what to the loss, and how tensors in them are moved and split.

A structure is a tensor, or tuples, lists and dicts of structures, as torch's default_collate makes them; what holds
no tensor, such as a list of texts, has one entry for each sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from gradsync.errors import InputError

TARGETS = ("labels", "target", "targets")
"""The key of the target in a batch that is a dict."""

SAMPLE = "(input, target), (input, ..., target), or a dict with the key labels"


@dataclass(frozen=True)
class Batch:
    """One rank's part of a step."""

    inputs: tuple[Any, ...] | dict[str, Any]
    """What the model is called with: positions, or keywords."""

    target: Any
    samples: int
    global_count: int
    """Samples of this step over all ranks."""

    def call(self, model: Callable[..., Any]) -> Any:
        return model(**self.inputs) if isinstance(self.inputs, dict) else model(*self.inputs)

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(self, inputs=mapped(self.inputs, change), target=mapped(self.target, change))

    def to(self, device: torch.device) -> Batch:
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

    def split(self, pieces: int) -> list[Batch]:
        """Micro-batches whose sizes differ by one at most, the larger ones first."""
        if pieces == 1:
            return [self]
        bounds = [0]
        for piece in range(pieces):
            bounds.append(bounds[-1] + self.samples // pieces + (piece < self.samples % pieces))
        parts = [slice(begin, end) for begin, end in pairwise(bounds)]
        return [
            replace(
                self, inputs=cut(self.inputs, part), target=cut(self.target, part), samples=part.stop - part.start
            )
            for part in parts
        ]


def arranged(collated: Any, samples: int, global_count: int, layout: Layout) -> Batch:
    """The batch in what a loader gives, ready for the model: floats in its precision, target classes as int64."""
    inputs: tuple[Any, ...] | dict[str, Any]
    if isinstance(collated, Mapping):
        key = next((name for name in TARGETS if name in collated), None)
        inputs = {str(name): value for name, value in collated.items() if name != key} if key else (collated,)
        target = collated[key] if key else collated
    elif isinstance(collated, (tuple, list)) and len(collated) > 1:
        *first, target = collated
        inputs = tuple(first)
    else:
        raise InputError(f"a sample of the data is {described(collated)}: it must be {SAMPLE}.")
    check_lengths([*tensors_in(inputs), *tensors_in(target)], samples)
    return Batch(mapped(inputs, layout.input), mapped(target, layout.target), samples, global_count)


@dataclass(frozen=True)
class Layout:
    """How the model takes its tensors."""

    dtype: torch.dtype = torch.float32
    memory: torch.memory_format = torch.contiguous_format

    def input(self, tensor: Tensor) -> Tensor:
        """Floats in the model's number format, images in its memory layout; other inputs are left unchanged."""
        if tensor.is_floating_point():
            tensor = tensor.to(self.dtype)
        return tensor.contiguous(memory_format=self.memory) if tensor.dim() == 4 else tensor

    def target(self, tensor: Tensor) -> Tensor:
        """Integers of any width as int64, which torch's losses take; booleans are left unchanged."""
        if tensor.is_floating_point():
            return tensor.to(self.dtype)
        return tensor if tensor.is_complex() or tensor.dtype == torch.bool else tensor.long()


def check_lengths(tensors: Sequence[Tensor], samples: int) -> None:
    lengths = [len(tensor) if tensor.dim() else 0 for tensor in tensors]
    if any(length != samples for length in lengths):
        found = ", ".join("×".join(map(str, tensor.shape)) or "a single number" for tensor in tensors)
        raise InputError(
            f"a batch of {samples} samples has tensors of unequal sizes ({found}): the first dimension of each must "
            f"be {samples}, one entry for each sample."
        )


def mapped(structure: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same structure with every tensor changed."""
    if isinstance(structure, Tensor):
        return change(structure)
    if isinstance(structure, Mapping):
        return {name: mapped(value, change) for name, value in structure.items()}
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(mapped(value, change) for value in structure))
    if isinstance(structure, (tuple, list)):
        return type(structure)(mapped(value, change) for value in structure)
    return structure


def cut(structure: Any, part: slice) -> Any:
    """The same structure with some of its samples."""
    if isinstance(structure, Tensor):
        return structure[part]
    if isinstance(structure, Mapping):
        return {name: cut(value, part) for name, value in structure.items()}
    if isinstance(structure, (tuple, list)):
        if not any(isinstance(value, (Tensor, Mapping, tuple, list)) for value in structure):
            return structure[part]
        found = [cut(value, part) for value in structure]
        return type(structure)(*found) if hasattr(structure, "_fields") else type(structure)(found)
    return structure


def tensors_in(structure: Any) -> Iterator[Tensor]:
    if isinstance(structure, Tensor):
        yield structure
    elif isinstance(structure, (Mapping, tuple, list)):
        for value in structure.values() if isinstance(structure, Mapping) else structure:
            yield from tensors_in(value)


@dataclass(frozen=True)
class Refused:
    """Why samples make no batch. It is returned instead of raised: a loader process would add its traceback."""

    sentence: str


class Collate:
    """torch's default_collate, or the ``collate_fn`` of the user's Dataset."""

    def __init__(self, samples: Any) -> None:
        self._own = getattr(samples, "collate_fn", None) or getattr(
            getattr(samples, "dataset", None),
            "collate_fn",
            None,  # of what a Subset is a part of
        )

    def __call__(self, samples: list[Any]) -> Any:
        if self._own is not None:
            return self._own(samples)
        try:
            return default_collate(samples)
        except (RuntimeError, TypeError) as error:
            shapes = sorted({described(sample) for sample in samples})
            return Refused(
                f"these samples cannot be put into a batch of equal sizes: {' and '.join(shapes[:2])} "
                f"({str(error).splitlines()[0]}). HINT: pad or crop them in the "
                "Dataset, or give it a method collate_fn."
            )


def collated(batch: Any) -> Any:
    if isinstance(batch, Refused):
        raise InputError(batch.sentence)
    return batch


def described(sample: Any) -> str:
    """The structure of a sample, with the shapes of its tensors: (3×32×32, int)."""
    if isinstance(sample, Tensor):
        return "×".join(map(str, sample.shape)) or "a single number"
    if isinstance(sample, Mapping):
        return f"{{{', '.join(f'{name}: {described(value)}' for name, value in sample.items())}}}"
    if isinstance(sample, (tuple, list)):
        return f"({', '.join(map(described, sample))})"
    return type(sample).__name__
