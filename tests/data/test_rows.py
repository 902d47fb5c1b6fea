"""Rows of files: a process has its part and no more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradsync.data.rows import Field, Labels, RowFile, Rows, Wanted
from gradsync.errors import InputError

WIDTH = 5


def files(folder: Path, counts: list[int]) -> tuple[list[RowFile], np.ndarray]:
    """Row n holds n in every byte; each file begins with a head of three bytes that are none of ours."""
    table = np.repeat(np.arange(sum(counts), dtype=np.uint8)[:, None], WIDTH, axis=1)
    found, start = [], 0
    for number, count in enumerate(counts):
        path = folder / str(number)
        path.write_bytes(b"xyz" + table[start : start + count].tobytes())
        found.append(RowFile(path, 3, WIDTH, count))
        start += count
    return found, table


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(lambda counts: sum(counts) > 0),
    size=st.integers(1, 5),
    packed=st.booleans(),
)
def test_the_parts_of_all_ranks_are_everything_once(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], size: int, packed: bool
):
    row_files, table = files(tmp_path_factory.mktemp("rows"), counts)
    if packed:
        row_files = [RowFile(file.content.read_bytes(), 3, WIDTH, file.count) for file in row_files]
    seen = []
    for rank in range(size):
        count, begin, end = Wanted(rank=rank, size=size).of(len(table))
        assert count == len(table)
        field = Field(Rows(row_files, begin, end), count, slice(1, 4), (3,))
        mine = torch.arange(begin, end)[torch.randperm(end - begin)]
        assert torch.equal(field[mine], mine.to(torch.uint8)[:, None].expand(-1, 3))
        seen += mine.tolist()
        for outside in {begin - 1, end} & set(range(count)):
            with pytest.raises(IndexError, match=f"samples {begin} to {end - 1} only"):
                field[torch.tensor([outside])]
    assert sorted(seen) == list(range(len(table)))


def test_a_field_is_indexed_like_a_tensor(tmp_path: Path):
    row_files, _ = files(tmp_path, [4, 6])
    labels = Labels(Rows(row_files, 0, 10), 10, 0)
    assert (len(labels), labels.shape) == (10, (10,))
    assert labels[7].item() == 7
    assert labels[3:6].tolist() == [3, 4, 5]
    assert labels[:].dtype == torch.int64


def test_a_rank_that_only_serves_wants_nothing():
    assert Wanted(samples=50, rank=3, size=3).of(100) == (50, 50, 50)
    assert Wanted(samples=500).of(100) == (100, 0, 100)


def test_a_file_that_became_shorter_is_noticed_when_it_is_mapped(tmp_path: Path):
    (file,), _ = files(tmp_path, [10])
    path = file.content
    assert isinstance(path, Path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"0 is truncated: 53 bytes are needed, but it has 52\."):
        Rows([file], 0, 10)
    assert Labels(Rows([file], 0, 9), 10, 0)[8].item() == 8  # who does not need the rest is not stopped
