"""How well a model does on test data: sums, so that ranks' shares can be added up."""

from __future__ import annotations

from typing import TypedDict

import torch
from torch import nn

from gradsync.data.loader import Loader
from gradsync.train.loss import loss_sum
from gradsync.train.precision import Precision


class TestSums(TypedDict):
    loss_sum: float
    correct: int
    count: int


@torch.inference_mode()
def evaluate(model: nn.Module, loader: Loader, precision: Precision, device: torch.device) -> TestSums:
    model.eval()
    sums: TestSums = {"loss_sum": 0.0, "correct": 0, "count": 0}
    for batch in loader.test():
        inputs, labels = batch.inputs.to(device), batch.labels.to(device)
        with precision.forward(device):
            outputs = model(inputs)
            sums["loss_sum"] += loss_sum(outputs, labels).item()
        sums["correct"] += int((outputs.argmax(1) == labels).sum())
        sums["count"] += len(labels)
    return sums
