"""Logistic regression: one linear layer over the pixels."""

from __future__ import annotations

import math

from torch import nn


def logistic(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))
