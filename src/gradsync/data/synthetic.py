"""Synthetic images that can be learnt, but not perfectly by a linear model.

Every class has two smooth patterns. A sample shows a little of the first, and a lot of the second with a random
sign, under noise: a linear model sees only the first (the second averages out), a convolutional one both.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from gradsync.data.images import Images
from gradsync.data.rows import InMemory, Parts, Wanted
from gradsync.data.seeding import generator
from gradsync.errors import InputError

TRAIN_SAMPLES, TEST_SAMPLES = 2560, 512
MOST_BYTES = 128 << 20  # by default: alexnet's images are 150 KB each
MOST_ASKED_BYTES = 16 << 30  # of one set, in memory

LINEAR, SIGNED, NOISE = 7.0, 14.0, 50.0  # grey levels; vgg11 reaches 97 % in one epoch, logistic never exceeds 67 %
GRID = 8  # patterns are this coarse
CHUNK = 256


def generate(shape: tuple[int, ...], classes: int, seed: int, parts: Parts) -> tuple[Images, Images]:
    """Train and test sets; the same seed gives the same bits, and a larger set begins with the smaller one.

    Only the samples in ``parts`` are made.
    """
    channels, height, width = shape
    refuse_too_many(channels * height * width, parts)
    coarse = torch.randn(2 * classes, channels, GRID, GRID, generator=generator(seed, "patterns"))
    patterns = interpolate(coarse, (height, width), mode="bilinear", align_corners=False)
    room = MOST_BYTES // (channels * height * width) // CHUNK * CHUNK
    train = make(patterns, parts.train, min(TRAIN_SAMPLES, room), seed, "train")
    test = make(patterns, parts.test, min(TEST_SAMPLES, room), seed, "test")
    return train, test


def refuse_too_many(sample_bytes: int, parts: Parts) -> None:
    """Refuse too many samples before any is made. A rank has a part of the training set, and the whole test set."""
    most = MOST_ASKED_BYTES // sample_bytes
    for name, wanted in (("--train-samples", parts.train), ("--test-samples", parts.test)):
        if (wanted.samples or 0) > most:
            raise InputError(
                f"{name} is {wanted.samples:,}: synthetic data is made in memory, {sample_bytes:,} bytes a sample, "
                f"and may have {most:,} samples for this model. HINT: use your own Dataset: --data file.py:function."
            )


def make(patterns: Tensor, wanted: Wanted, default: int, seed: int, part: str) -> Images:
    count, begin, end = wanted.of(wanted.samples or default)
    linear, signed = patterns.chunk(2)
    channels = linear.shape[1]
    chunks = [torch.empty(0, *linear.shape[2:], channels, dtype=torch.uint8)]
    labels = [torch.empty(0, dtype=torch.int64)]
    first = begin // CHUNK * CHUNK if begin < end else end  # a rank that wants nothing makes nothing
    for start in range(first, end, CHUNK):
        random = generator(seed, part, start)
        label = torch.randint(0, len(linear), (CHUNK,), generator=random)
        sign = torch.randint(0, 2, (CHUNK, 1, 1, 1), generator=random) * 2 - 1
        noise = torch.randn(CHUNK, *linear.shape[1:], generator=random)
        grey = 128 + LINEAR * linear[label] + SIGNED * sign * signed[label] + NOISE * noise
        chunks.append(grey.clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous())
        labels.append(label)
    mine = slice(begin - first, end - first)
    pixels, own_labels = torch.cat(chunks)[mine].clone(), torch.cat(labels)[mine].clone()
    return Images(
        InMemory(pixels, count, begin), InMemory(own_labels, count, begin), (0.5,) * channels, (0.25,) * channels
    )
