"""What is minimized and what is measured beside it, as functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gradsync.config import Resolved
from gradsync.config.task import CROSS_ENTROPY, metric_name
from gradsync.data.batches import Batch
from gradsync.train.loss import Loss, find_loss
from gradsync.train.metrics import Metric, find_metric


@dataclass(frozen=True)
class Task:
    loss: Loss
    """In training: with label smoothing, if it is asked for."""

    test_loss: Loss
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def sums(self, outputs: Any, batch: Batch) -> dict[str, Tensor | float]:
        """Of each metric, over the samples of the batch."""
        with torch.no_grad():
            return {name: metric(outputs, batch.target, batch.samples) for name, metric in self.metrics.items()}


def make_task(config: Resolved, device: torch.device) -> Task:
    """The user's own functions are imported here."""
    test_loss = find_loss(config.loss, device)
    smoothed = config.loss == CROSS_ENTROPY and config.label_smoothing > 0
    loss = find_loss(config.loss, device, config.label_smoothing) if smoothed else test_loss
    return Task(loss, test_loss, {metric_name(name): find_metric(name, config.loss) for name in config.metric})
