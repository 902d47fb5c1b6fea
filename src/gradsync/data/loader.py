"""Which samples each rank gets, and in which order; a thread makes them into batches ahead of the training.

The data set is cut into ``batch_size`` strata of consecutive samples. Each stratum is shuffled by (seed, epoch), and
step k takes the k-th sample of every stratum: the same set for any number of workers. Each worker takes the strata in
its part of the data set, so that in every epoch a rank reads the same 1/N of the data set and nothing else.
Augmentation is drawn per position in that order, so it is the same too. The last batch of an epoch is taken from the
strata that are longer by one; it is left out only if it has fewer samples than there are workers.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from gradsync.data import Dataset
from gradsync.data.batches import Batch, Collate, Layout, arranged, collated
from gradsync.data.images import Augmentation, Images
from gradsync.data.seeding import generator
from gradsync.data.text import Text

Item = TypeVar("Item")


def epoch_order(count: int, batch_size: int, seed: int, epoch: int) -> Tensor:
    """All samples in the order of an epoch; within each step, in the order of the data set."""
    bounds = torch.arange(batch_size + 1) * count // batch_size
    lengths = bounds.diff()
    stratum = torch.repeat_interleave(torch.arange(batch_size), lengths)
    # Shuffled, then brought back into the order of the strata: within each, the shuffle remains.
    shuffle = torch.randperm(count, generator=generator(seed, "order", epoch))
    by_stratum = shuffle[stratum[shuffle].argsort(stable=True)]
    step = torch.arange(count) - bounds[:-1][stratum]
    return by_stratum[step.argsort(stable=True)]


def steps_per_epoch(count: int, batch_size: int, workers: int) -> int:
    whole, rest = divmod(count, batch_size)
    return whole + (rest >= workers)


def share(start: int, stop: int, rank: int, size: int) -> slice:
    """A rank's part of [start, stop): contiguous; sizes differ by one at most, and the parts cover the range once."""
    count = stop - start
    return slice(start + count * rank // size, start + count * (rank + 1) // size)


def part_of_step(indices: Tensor, start: int, stop: int, count: int, rank: int, size: int) -> slice:
    """The positions within one step whose samples lie in the rank's part of the data set."""
    bounds = torch.tensor([count * rank // size, count * (rank + 1) // size])
    first, last = torch.searchsorted(indices[start:stop].contiguous(), bounds).tolist()
    return slice(start + first, start + last)


class Loader:
    """One rank's batches of one data set."""

    def __init__(
        self,
        samples: Images | Text | Dataset,
        *,
        batch_size: int,
        seed: int = 0,
        rank: int = 0,
        size: int = 1,
        augment: bool = True,
        layout: Layout = Layout(),  # noqa: B008 # it is frozen
        pin: bool = False,
        processes: int = 0,
        reshuffle: bool = True,
    ) -> None:
        self._samples = samples
        self._batch_size = batch_size
        self._seed = seed
        self._rank, self._size = rank, size
        self._augment = augment
        self._reshuffle = reshuffle
        self._layout = layout
        self._pin = pin
        self._own = None
        if not isinstance(samples, (Images, Text)):
            self._own = OwnLoader(samples, processes, generator(seed, "loader", rank))
        # A user's Dataset may draw from the global random generators, which a thread would share with the training.
        self._ahead = iter if self._own and not processes else prefetch

    @property
    def steps_per_epoch(self) -> int:
        return steps_per_epoch(len(self._samples), self._batch_size, self._size)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """This rank's part of every global batch, in the order of the epoch."""
        count = len(self._samples)
        order = epoch_order(count, self._batch_size, self._seed, epoch if self._reshuffle else 1)
        bounds = [
            (start, min(start + self._batch_size, count))
            for start in range(0, self.steps_per_epoch * self._batch_size, self._batch_size)
        ]
        parts = [part_of_step(order, start, stop, count, self._rank, self._size) for start, stop in bounds]
        draws = None
        if self._augment and isinstance(self._samples, Images) and self._samples.padding:
            draws = Augmentation.draw(count, self._samples.padding, generator(self._seed, "augment", epoch))
        return self._ahead(self._batches(order, parts, [stop - start for start, stop in bounds], draws))

    def test(self) -> Iterator[Batch]:
        """This rank's part of the whole set, not shuffled; the ranks together test every sample exactly once."""
        count = len(self._samples)
        mine = share(0, count, self._rank, self._size)
        starts = range(mine.start, mine.stop, self._batch_size)
        parts = [slice(start, min(start + self._batch_size, mine.stop)) for start in starts]
        return self._ahead(self._batches(torch.arange(count), parts, [count] * len(parts), None))

    def _batches(
        self, order: Tensor, parts: list[slice], counts: list[int], draws: Augmentation | None
    ) -> Iterator[Batch]:
        """``counts``: of each step, over all ranks."""
        if self._own is not None:
            made: Iterable[Any] = self._own.batches([order[part].tolist() for part in parts])
        elif isinstance(self._samples, Images):
            images = self._samples
            made = (images.batch(order[part], draws and draws[part], self._layout.dtype) for part in parts)
        else:
            assert isinstance(self._samples, Text)
            made = map(self._samples.batch, (order[part] for part in parts))
        for found, part, count in zip(made, parts, counts, strict=True):
            batch = arranged(found, part.stop - part.start, count, self._layout)
            yield batch.map(Tensor.pin_memory) if self._pin else batch


class OwnLoader:
    """torch's DataLoader over the user's Dataset, fed with our lists of indices; its processes outlive an epoch."""

    def __init__(self, samples: Dataset, processes: int, random: torch.Generator) -> None:
        self._indices: list[list[int]] = []
        self._loader: DataLoader[Any] = DataLoader(
            samples,  # type: ignore[arg-type]
            batch_sampler=self,
            num_workers=processes,
            collate_fn=Collate(samples),
            generator=random,
            persistent_workers=processes > 0,
        )

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)

    def batches(self, indices: list[list[int]]) -> Iterable[Any]:
        self._indices = indices
        return map(collated, self._loader)


def prefetch(items: Iterable[Item], depth: int = 2) -> Iterator[Item]:
    """The items in order, made by a thread up to ``depth`` ahead. Its errors are raised here."""
    ready: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(depth)
    stop = threading.Event()

    def put(entry: tuple[Item | None, BaseException | None]) -> None:
        while not stop.is_set():
            try:
                return ready.put(entry, timeout=0.1)
            except queue.Full:
                continue

    def fill() -> None:
        try:
            for item in items:
                put((item, None))
                if stop.is_set():
                    return
            put((None, StopIteration()))
        except BaseException as error:
            put((None, error))

    thread = threading.Thread(target=fill, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        thread.join(timeout=5)
