"""How well a model does on test data: sums, so that ranks' shares can be added up."""

from __future__ import annotations

from typing import TypedDict

import torch
from torch import nn

from gradsync.data.loader import Loader
from gradsync.train.precision import Precision
from gradsync.train.task import Task


class TestSums(TypedDict):
    loss_sum: float
    sums: dict[str, float]
    """Of each metric."""

    count: int


@torch.inference_mode()
def evaluate(model: nn.Module, loader: Loader, task: Task, precision: Precision, device: torch.device) -> TestSums:
    model.eval()
    loss, count = 0.0, 0
    sums = dict.fromkeys(task.metrics, 0.0)
    for batch in loader.test():
        batch = batch.to(device)
        with precision.forward(device):
            outputs = batch.call(model)
            loss += task.test_loss(outputs, batch.target, batch.samples).item()
            for name, value in task.sums(outputs, batch).items():
                sums[name] += float(value)
        count += batch.samples
    return {"loss_sum": loss, "sums": sums, "count": count}
