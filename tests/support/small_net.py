"""A small network with BatchNorm, as a user's own model: it shows of statistics what vgg11 shows, and is quick."""

from __future__ import annotations

from torch import nn


def build() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 8), (8, 16), (16, 16)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * 4 * 4, 10))
