"""The built-in data sets by name, and the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from gradsync.config.plugin import call, is_reference
from gradsync.data import cifar10, mnist, synthetic, text
from gradsync.data.batches import SAMPLE, Batch, Collate, Layout, arranged, collated
from gradsync.data.cifar10 import CIFAR10
from gradsync.data.files import FileSet, data_folder
from gradsync.data.images import Images
from gradsync.data.mnist import MNIST
from gradsync.data.rows import EVERYTHING, Parts, ReadRows, Wanted, map_rows
from gradsync.data.text import Text, is_text
from gradsync.errors import InputError, unknown

FILE_SETS: dict[str, FileSet] = {"cifar10": CIFAR10, "mnist": MNIST}
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
LOADERS = {"cifar10": cifar10.load, "mnist": mnist.load}

__all__ = [
    "FILE_SETS",
    "DataSet",
    "Dataset",
    "Images",
    "Parts",
    "Text",
    "Wanted",
    "data_folder",
    "find_files",
    "first_batch",
    "is_own",
    "load",
]


class Dataset(Protocol):
    """What a user's own data must be: torch's map-style Dataset."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True)
class DataSet:
    """Train and test samples, and what a model must know about them."""

    train: Images | Text | Dataset
    test: Images | Text | Dataset
    shape: tuple[int, ...] | None
    """Of the first input of a sample; None where that is no tensor."""

    classes: int
    positions: int | None = None
    """Tokens in a sample, where the target has a class for each."""

    is_tokens: bool = False
    """Whether the first input is whole numbers, as an embedding takes them."""

    first: Batch | None = None
    """The first sample of the user's own data."""

    @property
    def example(self) -> Batch:
        """A batch of one sample that looks like all others."""
        if self.first is not None:
            return self.first
        zeros = torch.zeros(1, *(self.shape or ()), dtype=torch.int64 if self.is_tokens else torch.float32)
        return Batch((zeros,), zeros if self.is_tokens else torch.tensor([self.classes - 1]), 1, 1)


def is_own(name: str) -> bool:
    """Whether it is the user's function, and not a text."""
    return is_reference(name) and not is_text(name)


def load(
    name: str,
    *,
    native: tuple[tuple[int, ...], int],
    seed: int = 0,
    parts: Parts = EVERYTHING,
    verify: bool = True,
    read: ReadRows = map_rows,
) -> DataSet:
    """The ``parts`` of a data set, by name. ``native``: shape and number of classes of synthetic data; a shape of one
    dimension is that of a window of text.

    ``verify``: check the hashes of files; ``read``: how to read rows of the training set.
    """
    if is_own(name):
        return own(name, native[1], parts.train.samples, parts.test.samples)
    if is_text(name):
        context = native[0][0] if len(native[0]) == 1 else text.CONTEXT
        return tokens(*text.load(name, context, parts, read))
    if name == "synthetic" and len(native[0]) == 1:
        return tokens(*text.generate(native[0][0], seed, parts))
    if name == "synthetic":
        train, test = synthetic.generate(*native, seed, parts)
        return DataSet(train, test, train.shape, native[1])
    if name not in LOADERS:
        raise unknown(
            "data", name, ["synthetic", *LOADERS, "text:FILE"], "Or give your own as package.module:function."
        )
    train, test = LOADERS[name](parts, verify, read)
    return DataSet(train, test, train.shape, 10)


def find_files(name: str) -> FileSet:
    if name not in FILE_SETS:
        raise unknown("data set", name, FILE_SETS)
    return FILE_SETS[name]


def tokens(train: Text, test: Text) -> DataSet:
    return DataSet(train, test, (train.context,), text.VOCABULARY, positions=train.context, is_tokens=True)


def own(name: str, classes: int, train_samples: int | None, test_samples: int | None) -> DataSet:
    """The user's function returns (train, test); the first sample gives the shape, ``train.classes`` the classes."""
    from torch.utils.data import Subset

    sets = call(name, "data")
    try:
        train, test = sets
        train[0]
        classes = len(getattr(train, "classes", range(classes)))
        len(train), len(test)
    except Exception as error:
        raise InputError(
            f"--data {name} must return two torch Datasets, train and test, whose samples are {SAMPLE}; "
            f"using what it returned raised {type(error).__name__}: {error}."
        ) from None
    if train_samples is not None:
        train = Subset(train, range(min(train_samples, len(train))))
    if test_samples is not None:
        test = Subset(test, range(min(test_samples, len(test))))
    batch = first_batch(train)
    first = next(iter(batch.inputs.values() if isinstance(batch.inputs, dict) else batch.inputs), None)
    shape = tuple(first.shape[1:]) if isinstance(first, Tensor) else None
    is_tokens = isinstance(first, Tensor) and first.dim() == 2 and first.dtype in INTEGERS
    per_token = isinstance(batch.target, Tensor) and batch.target.dim() == 2 and batch.target.dtype in INTEGERS
    return DataSet(train, test, shape, classes, batch.target.shape[1] if per_token else None, is_tokens, batch)


def first_batch(samples: Images | Text | Dataset, count: int = 1) -> Batch:
    """The first samples of the user's own Dataset, as a loader would make a batch of them."""
    assert not isinstance(samples, (Images, Text))
    found = [samples[index] for index in range(min(count, len(samples)))]
    return arranged(collated(Collate(samples)(found)), len(found), len(found), Layout())
