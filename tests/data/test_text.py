"""Bytes as tokens, from a file and made up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from gradsync import data
from gradsync.data.loader import Loader
from gradsync.data.rows import OutsideOwnPart
from gradsync.data.text import ENTROPY, LETTERS, Text, generate, load
from gradsync.errors import InputError

CONTEXT = 8


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_bytes(bytes(number % 251 for number in range(1000)))
    return path


def parts(rank: int = 0, size: int = 1, samples: int | None = None) -> data.Parts:
    return data.Parts(data.Wanted(samples, rank, size), data.Wanted())


def test_every_byte_is_to_be_told_from_those_before_it(book: Path):
    train, test = load(f"text:{book}", CONTEXT, parts())
    inputs, targets = train.batch(torch.tensor([0, 3]))
    assert inputs[0].tolist() == list(range(8))
    assert targets[0].tolist() == list(range(1, 9))
    assert inputs[1].tolist() == list(range(24, 32))
    assert inputs.dtype == targets.dtype == torch.int64
    first, _ = test.batch(torch.tensor([0]))
    assert first[0, 0].item() == 900 % 251, "the last tenth is the test set"
    assert (len(train), len(test)) == (899 // 8, 99 // 8)


def test_each_rank_has_its_own_part_of_the_file_and_nothing_else(book: Path):
    whole, _ = load(f"text:{book}", CONTEXT, parts())
    for rank in range(3):
        own, _ = load(f"text:{book}", CONTEXT, parts(rank, 3))
        assert len(own) == len(whole)
        windows = torch.arange(own.begin, own.end)
        assert torch.equal(own.batch(windows)[1], whole.batch(windows)[1])
        assert len(own.text) == (own.end - own.begin) * CONTEXT + 1
        with pytest.raises(OutsideOwnPart):
            own.batch(torch.tensor([own.end % len(own)]))
    none, _ = load(f"text:{book}", CONTEXT, parts(1, 1))
    assert len(none) == len(whole) and not len(none.text)
    few, _ = load(f"text:{book}", CONTEXT, parts(samples=5))
    assert len(few) == 5


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("text:short.txt", "short.txt has 89 bytes: with windows of 8 bytes a text needs at least 90"),
        ("text:none.txt", "cannot read none.txt: No such file"),
        ("text:.", r"cannot read \.: Is a directory"),
        ("text:", "cannot read"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str):
    monkeypatch.chdir(tmp_path)
    Path("short.txt").write_bytes(bytes(89))
    with pytest.raises(InputError, match=sentence):
        load(name, CONTEXT, parts())
    Path("short.txt").write_bytes(bytes(90))
    assert [len(each) for each in load("text:short.txt", CONTEXT, parts())] == [10, 1]


def test_made_up_text_is_the_same_for_any_number_of_ranks():
    whole, test = generate(CONTEXT, 0, parts(samples=700))
    for rank in range(3):
        own, same = generate(CONTEXT, 0, parts(rank, 3, 700))
        windows = torch.arange(own.begin, own.end)
        assert torch.equal(own.batch(windows)[0], whole.batch(windows)[0])
        assert torch.equal(same.text, test.text)
    other, _ = generate(CONTEXT, 1, parts(samples=700))
    assert not torch.equal(other.text, whole.text)


def pairs(text: Text) -> Counter[tuple[int, int]]:
    inputs, targets = text.batch(torch.arange(len(text)))
    return Counter(zip(inputs.flatten().tolist(), targets.flatten().tolist(), strict=True))


def test_made_up_text_has_the_entropy_it_claims():
    """Of a letter, given the one before it; all letters are equally frequent."""
    found = pairs(generate(64, 0, parts(samples=4096))[0])
    firsts = Counter(dict.fromkeys(LETTERS.tolist(), 0))
    for (first, _), count in found.items():
        firsts[first] += count
    total = sum(found.values())
    shares = torch.tensor([count / total for count in found.values()])
    given = torch.tensor([count / firsts[first] for (first, _), count in found.items()])
    assert -(shares * given.log()).sum().item() == pytest.approx(ENTROPY, abs=0.01)
    assert set(firsts) == set(LETTERS.tolist())
    assert max(firsts.values()) < 1.2 * min(firsts.values())


def test_more_text_than_memory_is_refused_before_it_is_made():
    with pytest.raises(InputError, match="100,000,000 windows of 64 bytes were asked for"):
        generate(64, 0, parts(samples=100_000_000))


def test_a_loader_takes_windows_as_it_takes_images(book: Path):
    samples = data.load(f"text:{book}", native=((CONTEXT,), 256))
    assert (samples.shape, samples.classes, samples.positions, samples.is_tokens) == ((CONTEXT,), 256, CONTEXT, True)
    batch = next(Loader(samples.train, batch_size=4).epoch(1))
    assert batch.inputs[0].shape == batch.target.shape == (4, CONTEXT)
    assert batch.inputs[0][:, 1:].tolist() == batch.target[:, :-1].tolist()
