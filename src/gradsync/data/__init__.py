"""The built-in data sets by name, and the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from gradsync.config.plugin import call, is_reference
from gradsync.data import cifar10, mnist, synthetic
from gradsync.data.cifar10 import CIFAR10
from gradsync.data.files import FileSet, data_folder
from gradsync.data.images import Images
from gradsync.data.mnist import MNIST
from gradsync.data.rows import EVERYTHING, Parts, ReadRows, Wanted, map_rows
from gradsync.errors import InputError, unknown

FILE_SETS: dict[str, FileSet] = {"cifar10": CIFAR10, "mnist": MNIST}
LOADERS = {"cifar10": cifar10.load, "mnist": mnist.load}

__all__ = ["FILE_SETS", "DataSet", "Dataset", "Images", "Parts", "Wanted", "data_folder", "find_files", "load"]


class Dataset(Protocol):
    """What a user's own data must be: torch's map-style Dataset of (input, label)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True)
class DataSet:
    """Train and test samples, and what a model must know about them."""

    train: Images | Dataset
    test: Images | Dataset
    shape: tuple[int, ...]
    classes: int


def load(
    name: str,
    *,
    native: tuple[tuple[int, ...], int],
    seed: int = 0,
    parts: Parts = EVERYTHING,
    verify: bool = True,
    read: ReadRows = map_rows,
) -> DataSet:
    """The ``parts`` of a data set, by name. ``native``: shape and number of classes of synthetic data.

    ``verify``: check the hashes of files; ``read``: how to read rows of the training set.
    """
    if is_reference(name):
        return own(name, native[1], parts.train.samples, parts.test.samples)
    if name == "synthetic":
        train, test = synthetic.generate(*native, seed, parts)
        return DataSet(train, test, train.shape, native[1])
    if name not in LOADERS:
        raise unknown("data", name, ["synthetic", *LOADERS], "Or give your own as package.module:function.")
    train, test = LOADERS[name](parts, verify, read)
    return DataSet(train, test, train.shape, 10)


def find_files(name: str) -> FileSet:
    if name not in FILE_SETS:
        raise unknown("data set", name, FILE_SETS)
    return FILE_SETS[name]


def own(name: str, classes: int, train_samples: int | None, test_samples: int | None) -> DataSet:
    """The user's function returns (train, test); the first sample gives the shape, ``train.classes`` the classes."""
    from torch.utils.data import Subset

    sets = call(name, "data")
    try:
        train, test = sets
        inputs, _ = train[0]
        shape = tuple(inputs.shape)
        classes = len(getattr(train, "classes", range(classes)))
        len(train), len(test)
    except Exception as error:
        raise InputError(
            f"--data {name} must return two torch Datasets, train and test, of (tensor, label) pairs; "
            f"using what it returned raised {type(error).__name__}: {error}."
        ) from None
    if train_samples is not None:
        train = Subset(train, range(min(train_samples, len(train))))
    if test_samples is not None:
        test = Subset(test, range(min(test_samples, len(test))))
    return DataSet(train, test, shape, classes)
