"""A labelled set of images, and how to make a batch of it: whole tensors, no loop over samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradsync.data.rows import Samples


@dataclass(frozen=True)
class Augmentation:
    """Random crop after padding, random mirror: the draws for a sequence of samples."""

    top: Tensor
    left: Tensor
    mirror: Tensor

    @staticmethod
    def draw(count: int, padding: int, generator: torch.Generator) -> Augmentation:
        top, left = torch.randint(0, 2 * padding + 1, (2, count), generator=generator)
        return Augmentation(top, left, torch.randint(0, 2, (count,), generator=generator).bool())

    def __getitem__(self, part: slice) -> Augmentation:
        return Augmentation(self.top[part], self.left[part], self.mirror[part])


@dataclass(frozen=True)
class Images:
    """Pixels in their format on disk, in memory or still there; they are normalized when a batch is made."""

    pixels: Tensor | Samples  # uint8, samples × height × width × channels
    labels: Tensor | Samples  # int64
    mean: tuple[float, ...]
    std: tuple[float, ...]
    padding: int = 0  # of random crops in training; 0: no augmentation

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        _, height, width, channels = self.pixels.shape
        return (channels, height, width)

    def batch(
        self, indices: Tensor, augmentation: Augmentation | None = None, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Normalized images, channels-last in memory, and their labels."""
        pixels = self.pixels[indices]
        if augmentation is not None:
            pixels = crop_and_mirror(pixels, augmentation, self.padding)
        scale = 1 / (255 * torch.tensor(self.std, dtype=dtype))
        shift = -torch.tensor(self.mean, dtype=dtype) * 255 * scale
        images = pixels.to(dtype).mul_(scale).add_(shift)
        return images.permute(0, 3, 1, 2), self.labels[indices]


def crop_and_mirror(pixels: Tensor, draws: Augmentation, padding: int) -> Tensor:
    """One gather does both: the column index runs backwards where the image is mirrored."""
    count, height, width, _ = pixels.shape
    padded = pad(pixels, (0, 0, padding, padding, padding, padding))
    rows = draws.top[:, None] + torch.arange(height)
    columns = torch.arange(width).expand(count, width)
    columns = draws.left[:, None] + torch.where(draws.mirror[:, None], columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
