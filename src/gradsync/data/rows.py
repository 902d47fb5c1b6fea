"""Data sets as rows of bytes in files, of which a process reads only those it uses.

Files are mapped into memory: pages that are not touched are never read, and those read can be evicted. A rank touches
only its own part of the training set (see loader.py), so its memory use falls with the number of ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsync.errors import truncated

Array = np.ndarray[Any, Any]
ReadRows = Callable[[Path, int, int, int, int], Array]
"""(file, offset of its first row, bytes per row, first row, row after the last) -> rows × bytes"""


def map_rows(path: Path, offset: int, row_bytes: int, first: int, last: int) -> Array:
    if first == last:
        return np.empty((0, row_bytes), np.uint8)
    needed, found = offset + last * row_bytes, path.stat().st_size
    if found < needed:  # touching a page mapped beyond the end of the file is a bus error
        raise truncated(path, needed, found)
    # "c": writing would change our copy and not the file. Nothing is written, but torch warns of read-only arrays.
    return np.memmap(path, np.uint8, "c", offset + first * row_bytes, (last - first, row_bytes))


@dataclass(frozen=True)
class Wanted:
    """The part of ``rank`` among ``size`` of the first ``samples`` (None: all); a rank beyond it wants nothing."""

    samples: int | None = None
    rank: int = 0
    size: int = 1

    def of(self, available: int) -> tuple[int, int, int]:
        """How many samples there are for all ranks together, and where this rank's begin and end."""
        count = available if self.samples is None else min(self.samples, available)
        begin, end = (min(count, count * rank // self.size) for rank in (self.rank, self.rank + 1))
        return count, begin, end


@dataclass(frozen=True)
class Parts:
    """What one process wants of a data set."""

    train: Wanted = Wanted()
    test: Wanted = Wanted()


EVERYTHING = Parts()


@dataclass(frozen=True)
class RowFile:
    """``count`` rows from ``offset`` on, in a file or in the content of one."""

    content: Path | bytes
    offset: int
    row_bytes: int
    count: int


class Rows:
    """The rows of several files, numbered consecutively. Only rows ``begin`` to ``end`` can be taken."""

    def __init__(self, files: Sequence[RowFile], begin: int, end: int, read: ReadRows = map_rows) -> None:
        self.begin, self.end = begin, end
        self._row_bytes = files[0].row_bytes
        self._segments: list[tuple[int, Array]] = []
        start = 0
        for file in files:
            first, last = (min(max(bound - start, 0), file.count) for bound in (begin, end))
            self._segments.append((start + first, self._read(file, first, last, read)))
            start += file.count

    def _read(self, file: RowFile, first: int, last: int, read: ReadRows) -> Array:
        if isinstance(file.content, Path):
            return read(file.content, file.offset, file.row_bytes, first, last)
        whole = np.frombuffer(file.content, np.uint8, file.count * file.row_bytes, file.offset)
        return whole.reshape(file.count, file.row_bytes)[first:last].copy()

    def take(self, indices: Array, columns: slice) -> Array:
        width = len(range(self._row_bytes)[columns])
        found = np.empty((len(indices), width), np.uint8)
        missing = len(indices)
        for start, array in self._segments:
            here = (indices >= start) & (indices < start + len(array))
            if here.any():
                found[here] = array[indices[here] - start, columns]
                missing -= int(here.sum())
        if missing:
            raise OutsideOwnPart(self.begin, self.end)
        return found


class OutsideOwnPart(IndexError):
    def __init__(self, begin: int, end: int) -> None:
        super().__init__(f"this process has samples {begin} to {end - 1} only")


class Samples(ABC):
    """One field of every sample, such as its label. This process holds a part of them; indices count all samples."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self._count, self._shape = count, shape

    def __len__(self) -> int:
        return self._count

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._count, *self._shape)

    def __getitem__(self, which: int | slice | Tensor) -> Tensor:
        if isinstance(which, int):
            return self._take(torch.tensor([which]))[0]
        return self._take(torch.arange(self._count)[which] if isinstance(which, slice) else which)

    @abstractmethod
    def _take(self, indices: Tensor) -> Tensor: ...


class InMemory(Samples):
    """A tensor whose first row is sample ``begin``."""

    def __init__(self, rows: Tensor, count: int, begin: int) -> None:
        super().__init__(count, tuple(rows.shape[1:]))
        self._rows, self._begin = rows, begin

    def _take(self, indices: Tensor) -> Tensor:
        if len(indices) and not self._begin <= indices.min() <= indices.max() < self._begin + len(self._rows):
            raise OutsideOwnPart(self._begin, self._begin + len(self._rows))
        return self._rows[indices - self._begin]


class Field(Samples):
    """Some columns of rows in files."""

    def __init__(self, rows: Rows, count: int, columns: slice, shape: tuple[int, ...]) -> None:
        super().__init__(count, shape)
        self._rows, self._columns = rows, columns

    def _take(self, indices: Tensor) -> Tensor:
        return self._form(torch.from_numpy(self._rows.take(indices.numpy(), self._columns)))

    def _form(self, found: Tensor) -> Tensor:
        return found.view(-1, *self._shape)


class Planes(Field):
    """Images stored plane by plane, returned pixel by pixel (height × width × channels)."""

    def _form(self, found: Tensor) -> Tensor:
        height, width, channels = self._shape
        return found.view(-1, channels, height, width).permute(0, 2, 3, 1).contiguous()


class Labels(Field):
    def __init__(self, rows: Rows, count: int, column: int) -> None:
        super().__init__(rows, count, slice(column, column + 1), ())

    def _form(self, found: Tensor) -> Tensor:
        return found.view(-1).long()
