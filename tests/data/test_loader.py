from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradsync.data.batches import Layout
from gradsync.data.images import Images
from gradsync.data.loader import Loader, epoch_order, prefetch, share, steps_per_epoch


def numbered(count: int, padding: int = 1) -> Images:
    """Every image holds its own number, so that a batch tells which samples it has."""
    pixels = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(count, 4, 4, 1).contiguous()
    return Images(pixels, torch.arange(count), (0.0,), (1 / 255,), padding)


@given(start=st.integers(0, 50), count=st.integers(0, 10_000), size=st.integers(1, 64))
def test_shares_are_everything_exactly_once_and_differ_by_one_at_most(start: int, count: int, size: int):
    parts = [share(start, start + count, rank, size) for rank in range(size)]
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(start, start + count))
    lengths = [part.stop - part.start for part in parts]
    assert max(lengths) - min(lengths) <= 1


@settings(deadline=None, max_examples=40)
@given(
    count=st.integers(1, 60),
    share_size=st.integers(1, 5),
    workers=st.sampled_from([1, 2, 3, 4]),
    seed=st.integers(0, 3),
)
def test_the_global_batch_of_a_step_is_the_same_for_any_number_of_workers(
    count: int, share_size: int, workers: int, seed: int
):
    """Samples and augmentation, bit for bit, with the ranks' parts laid end to end."""
    batch_size = share_size * 12
    one = list(Loader(numbered(count), batch_size=batch_size, seed=seed).epoch(3))
    many = [
        list(Loader(numbered(count), batch_size=batch_size, seed=seed, rank=rank, size=workers).epoch(3))
        for rank in range(workers)
    ]
    steps = steps_per_epoch(count, batch_size, workers)
    assert steps >= len(one) - 1  # only a tail smaller than the workers may be missing
    for step in range(steps):
        together = torch.cat([batches[step].inputs[0] for batches in many])
        assert torch.equal(together, one[step].inputs[0])
        assert torch.equal(torch.cat([batches[step].target for batches in many]), one[step].target)
        assert {batches[step].global_count for batches in many} == {len(one[step].target)}


def test_an_epoch_has_every_sample_once_and_the_next_another_order():
    loader = Loader(numbered(50), batch_size=8, seed=1)
    first, second = ([label for batch in loader.epoch(e) for label in batch.target.tolist()] for e in (1, 2))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert first == epoch_order(50, 8, 1, 1).tolist()


def test_without_reshuffling_every_epoch_has_the_same_order():
    loader = Loader(numbered(50), batch_size=8, seed=1, reshuffle=False)
    first, second = ([label for batch in loader.epoch(e) for label in batch.target.tolist()] for e in (1, 2))
    assert first == second


@settings(deadline=None, max_examples=40)
@given(count=st.integers(4, 200), share_size=st.integers(1, 5), workers=st.sampled_from([1, 2, 3, 4]))
def test_a_rank_takes_the_same_part_of_the_data_set_in_every_epoch(count: int, share_size: int, workers: int):
    for rank in range(workers):
        loader = Loader(numbered(count), batch_size=share_size * workers, rank=rank, size=workers)
        part = range(count * rank // workers, count * (rank + 1) // workers)
        for epoch in (1, 2):
            assert {label for batch in loader.epoch(epoch) for label in batch.target.tolist()} <= set(part)


@pytest.mark.parametrize(("count", "workers"), [(10_000, 3), (10, 4), (2, 4)])
def test_testing_takes_every_sample_exactly_once(count: int, workers: int):
    images = Images(torch.zeros(count, 1, 1, 1, dtype=torch.uint8), torch.arange(count), (0.0,), (1.0,), padding=1)
    loaders = [Loader(images, batch_size=256, rank=rank, size=workers) for rank in range(workers)]
    seen = [label for loader in loaders for batch in loader.test() for label in batch.target.tolist()]
    assert seen == list(range(count))


def test_the_reports_count_196_steps_for_cifar10_and_469_for_mnist():
    assert steps_per_epoch(50_000, 256, 4) == 196
    assert steps_per_epoch(60_000, 128, 1) == 469


@pytest.mark.parametrize("processes", [0, 2])
def test_own_datasets_are_sharded_alike_with_and_without_loader_processes(processes: int):
    samples = torch.utils.data.TensorDataset(torch.arange(30.0).view(-1, 1), torch.arange(30))
    loader = Loader(samples, batch_size=6, seed=5, rank=1, size=2, processes=processes)
    for epoch in (1, 2):
        labels = [label for batch in loader.epoch(epoch) for label in batch.target.tolist()]
        assert labels == epoch_order(30, 6, 5, epoch).view(-1, 6)[:, 3:].flatten().tolist()


def test_prefetch_hands_errors_on():
    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("disk on fire")

    items = prefetch(broken())
    assert next(items) == 1
    with pytest.raises(RuntimeError, match="disk on fire"):
        next(items)


def test_prefetch_ends_its_thread_when_the_reader_stops_early():
    before = set(threading.enumerate())  # of which some may end meanwhile: other tests leave theirs
    items = prefetch(iter(range(10**9)))
    assert next(items) == 0
    (mine,) = set(threading.enumerate()) - before
    items.close()  # type: ignore[attr-defined]
    assert not mine.is_alive()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_batches_come_in_the_layout_the_model_wants(layout: torch.memory_format):
    images = Images(torch.zeros(8, 4, 4, 3, dtype=torch.uint8), torch.arange(8), (0.0,) * 3, (1.0,) * 3)
    batch = next(Loader(images, batch_size=4, layout=Layout(memory=layout)).epoch(1))
    assert batch.inputs[0].is_contiguous(memory_format=layout)


def test_whole_numbers_of_own_datasets_stay_whole_numbers():
    tokens = torch.utils.data.TensorDataset(torch.arange(12).view(4, 3), torch.zeros(4))
    assert next(Loader(tokens, batch_size=4).epoch(1)).inputs[0].dtype == torch.int64
