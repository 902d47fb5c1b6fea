"""The CNN of the MPI report, layer for layer (its figure 1: 690,590 parameters). The dropout rate is ours."""

from __future__ import annotations

from torch import nn


def mnist_cnn(channels: int, classes: int, norm: str) -> nn.Module:
    def conv(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2)]

    return nn.Sequential(
        *conv(channels, 32), *conv(32, 128), *conv(128, 256),
        nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(256, 1000), nn.ReLU(inplace=True),
        nn.Linear(1000, 100), nn.ReLU(inplace=True),
        nn.Linear(100, classes),
    )  # fmt: skip
