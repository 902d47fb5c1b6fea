"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradsync.config import Injection
from gradsync.data.loader import Batch, Loader
from gradsync.record import RankLog
from gradsync.strategies import Strategy
from gradsync.train.evaluate import evaluate
from gradsync.train.loss import loss_sum
from gradsync.train.precision import Precision


class LossNotFinite(Exception):
    """Training has diverged on this rank."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many steps to train, on which device, and what each row of the record holds."""

    steps: int
    precision: Precision
    device: torch.device
    rank: int
    size: int
    keep_going: bool
    accumulate: int = 1
    label_smoothing: float = 0.0
    count_correct: bool = False
    injection: Injection | None = None
    ranks_differ: bool = False
    """The ranks hold different models, so that each tests its own on the whole test set."""

    step_facts: Callable[[], dict[str, Any]] = dict
    """Further values for the row of each step and each test."""

    stopped: Callable[[], bool] = lambda: False
    """Whether training ends before the planned steps, as servers may decide."""

    def pause(self, where: str) -> None:
        """Sleep for as long as --inject asks for at this point, if at all."""
        if self.injection and (delay := self.injection.delay(self.rank, where)):
            time.sleep(delay)


def train(sync: Strategy, loader: Loader, test: Loader | None, plan: Plan, log: RankLog) -> None:
    """Train for ``plan.steps`` steps, over as many epochs as that takes, with a test at the end of each epoch."""
    step = epoch = 0
    while step < plan.steps and not plan.stopped():
        epoch += 1
        step = train_epoch(sync, loader, plan, log, step, epoch)
        if test is not None:
            result = evaluate(sync.model, test, plan.precision, plan.device)
            log.write("test", step=step, epoch=epoch, whole=plan.ranks_differ, **result, **plan.step_facts())


def train_epoch(sync: Strategy, loader: Loader, plan: Plan, log: RankLog, step: int, epoch: int) -> int:
    """One pass over the data, or as far as the plan goes; returns the number of steps since the start."""
    meter = sync.comm.meter
    sync.model.train()
    meter.begin()
    meter.phase("data")
    for batch in loader.epoch(epoch):
        plan.pause("data")
        meter.phase("copy")
        inputs = batch.inputs.to(plan.device, non_blocking=True)
        labels = batch.labels.to(plan.device, non_blocking=True)

        sums: list[Tensor] = []
        pieces = min(plan.accumulate, batch.global_count // plan.size)  # the same number on every rank
        for piece in zip(inputs.tensor_split(pieces), labels.tensor_split(pieces), strict=True):
            with sync.accumulating() if len(sums) < pieces - 1 else nullcontext():
                sums.append(backward(sync, *piece, batch, plan))
        sync.step()

        step += 1
        loss, *correct = torch.stack(sums).sum(0).tolist()
        mean = loss / len(labels)
        counted = {"correct": int(correct[0])} if plan.count_correct else {}
        facts = {"step": step, "epoch": epoch, "loss": mean, "samples": len(labels), **counted, **plan.step_facts()}
        log.write("step", **facts, **meter.end())
        if not math.isfinite(mean) and not plan.keep_going:
            raise LossNotFinite(
                f"the loss is {mean} at step {step} on rank {plan.rank}. "
                "HINT: lower --lr, or continue with --keep-going."
            )
        if step == plan.steps or plan.stopped():
            break
        meter.phase("data")
    return step


def backward(sync: Strategy, inputs: Tensor, labels: Tensor, batch: Batch, plan: Plan) -> Tensor:
    """Forward and backward of one micro-batch: the sum of its losses, and the number of correct predictions."""
    meter = sync.comm.meter
    meter.phase("forward")
    plan.pause("forward")
    # The sum over this rank's share, divided by an even share of the global batch: the mean over the ranks is then
    # the mean over the global batch, even where the last batch of an epoch does not split evenly.
    with plan.precision.forward(plan.device):
        outputs = sync(inputs)
        total = loss_sum(outputs, labels, plan.label_smoothing)
        loss = total * (plan.size / batch.global_count * sync.loss_scale)
    meter.phase("backward")
    plan.pause("backward")
    loss.backward()
    if not plan.count_correct:
        return total.detach()[None]
    return torch.stack((total.detach(), (outputs.detach().argmax(1) == labels).sum().to(total.dtype)))
