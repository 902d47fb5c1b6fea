"""Text as tokens, one for each byte, in windows: the model predicts each byte from those before it in its window.

The bytes are those of a file, whose last tenth is the test set, or are drawn from a Markov chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gradsync.data.rows import OutsideOwnPart, Parts, ReadRows, Wanted, map_rows
from gradsync.data.seeding import generator
from gradsync.errors import InputError

PREFIX = "text:"
VOCABULARY = 256
TEST_SHARE = 10  # one part in so many

CONTEXT = 64  # for a model that has no option of this name
TRAIN_WINDOWS, TEST_WINDOWS = 1536, 128
LETTERS = torch.tensor(list(b"abcdefghijklmnopqrstuvwxyz .,;!?"))
WEIGHTS = (0.6, 0.25, 0.1, 0.05)
"""How often each of the letters that may follow a letter does."""

ENTROPY = -sum(share * math.log(share) for share in WEIGHTS)
"""What no model's loss on synthetic text falls below, in expectation: 1.03, a perplexity of 2.8."""

CHUNK = 256
MOST_BYTES = 4 << 30


@dataclass(frozen=True)
class Text:
    """``count`` windows of ``context`` bytes, one after another. This process has those from ``begin`` to ``end``."""

    text: Tensor
    """The bytes of these windows, and the one after them: uint8."""

    context: int
    count: int
    begin: int
    end: int
    stride: int
    """From the first byte of a window to that of the next."""

    def __len__(self) -> int:
        return self.count

    def batch(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Windows of bytes, and for each byte the one that follows it."""
        if len(windows) and not self.begin <= windows.min() <= windows.max() < self.end:
            raise OutsideOwnPart(self.begin, self.end)
        places = (windows - self.begin)[:, None] * self.stride + torch.arange(self.context + 1)
        found = self.text[places].long()
        return found[:, :-1].contiguous(), found[:, 1:].contiguous()


def is_text(name: str) -> bool:
    return name.startswith(PREFIX)


def load(name: str, context: int, parts: Parts, read: ReadRows = map_rows) -> tuple[Text, Text]:
    """Train and test windows of the file in ``text:FILE``."""
    path = Path(name.removeprefix(PREFIX)).expanduser()
    try:
        size = path.stat().st_size
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"--data {name}: cannot read {path or 'a file without a name'}: {why}.") from None
    boundary = size - size // TEST_SHARE
    needed = TEST_SHARE * (context + 1)
    if size < needed:
        raise InputError(
            f"{path} has {size:,} bytes: with windows of {context} bytes a text needs at least {needed:,}, so that "
            "its last tenth, the test set, has one. HINT: a longer text, or a smaller --model-options.context."
        )
    return (
        windows(path, 0, boundary, context, parts.train, read),
        windows(path, boundary, size, context, parts.test, map_rows),
    )


def windows(path: Path, first: int, last: int, context: int, wanted: Wanted, read: ReadRows) -> Text:
    count, begin, end = wanted.of((last - first - 1) // context)
    length = (end - begin) * context + 1 if begin < end else 0
    start = first + begin * context
    text = torch.from_numpy(read(path, 0, 1, start, start + length)).flatten()
    return Text(text, context, count, begin, end, stride=context)


def generate(context: int, seed: int, parts: Parts) -> tuple[Text, Text]:
    """A text whose letters each depend on the one before: four letters may follow, with different frequencies.

    Every window is a text of its own, so that a rank makes only those it wants. The same seed gives the same bytes.
    """
    order = torch.randperm(len(LETTERS), generator=generator(seed, "letters"))
    return (
        make(order, context, parts.train, TRAIN_WINDOWS, seed, "train"),
        make(order, context, parts.test, TEST_WINDOWS, seed, "test"),
    )


def make(order: Tensor, context: int, wanted: Wanted, default: int, seed: int, part: str) -> Text:
    """``order``: a letter is followed by the next in it most often, then by the one after that, and so on."""
    asked = wanted.samples or default
    if asked * context > MOST_BYTES:
        raise InputError(
            f"{asked:,} windows of {context:,} bytes were asked for: synthetic text is made in memory, and may have "
            f"{MOST_BYTES // context:,}. HINT: --data text:FILE reads a file as it is needed."
        )
    count, begin, end = wanted.of(asked)
    rank_of_letter = order.argsort()
    chunks = [torch.empty(0, context + 1, dtype=torch.uint8)]
    first = begin // CHUNK * CHUNK if begin < end else end
    for start in range(first, end, CHUNK):
        random = generator(seed, "text", part, start)
        letter = torch.randint(0, len(LETTERS), (CHUNK,), generator=random)
        draws = torch.rand(CHUNK, context, generator=random)
        steps = torch.bucketize(draws, torch.tensor(WEIGHTS).cumsum(0)[:-1]) + 1
        found = [letter]
        for step in steps.unbind(1):
            found.append(order[(rank_of_letter[found[-1]] + step) % len(LETTERS)])
        chunks.append(LETTERS[torch.stack(found, 1)].to(torch.uint8))
    return Text(torch.cat(chunks)[begin - first : end - first].flatten(), context, count, begin, end, context + 1)
