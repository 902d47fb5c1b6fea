"""VGG-11 for 32×32 images (Simonyan and Zisserman 2014, configuration A): the network of the VGG-11 reports."""

from __future__ import annotations

from torch import nn

from gradsync.models.blocks import conv_norm

LAYERS = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")


def vgg11(channels: int, classes: int, norm: str) -> nn.Module:
    layers: list[nn.Module] = []
    for width in LAYERS:
        if isinstance(width, int):
            layers += [*conv_norm(channels, width, norm, bias=True), nn.ReLU(inplace=True)]
            channels = width
        else:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, classes))
