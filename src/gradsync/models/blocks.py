"""The convolution every network here is made of, with or without normalization."""

from __future__ import annotations

from torch import nn


def conv_norm(
    inputs: int, outputs: int, norm: str, *, kernel: int = 3, stride: int = 1, bias: bool = False
) -> list[nn.Module]:
    """Convolution and BatchNorm; without the norm, the convolution always has a bias."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=bias or norm == "none")
    return [conv] if norm == "none" else [conv, nn.BatchNorm2d(outputs)]
