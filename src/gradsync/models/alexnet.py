"""AlexNet at 224×224 (Krizhevsky 2014, the one-tower form): five convolutions, three linear layers, no norm."""

from __future__ import annotations

from torch import nn


def alexnet(channels: int, classes: int, norm: str) -> nn.Module:
    def relu() -> nn.Module:
        return nn.ReLU(inplace=True)

    return nn.Sequential(
        nn.Conv2d(channels, 64, 11, stride=4, padding=2), relu(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), relu(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), relu(),
        nn.Conv2d(384, 256, 3, padding=1), relu(),
        nn.Conv2d(256, 256, 3, padding=1), relu(), nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), relu(),
        nn.Dropout(), nn.Linear(4096, 4096), relu(),
        nn.Linear(4096, classes),
    )  # fmt: skip
