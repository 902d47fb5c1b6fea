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
from torch.amp import GradScaler

from gradsync.config import Injection
from gradsync.config.task import figure_of
from gradsync.data.batches import Batch
from gradsync.data.loader import Loader
from gradsync.record import RankLog
from gradsync.strategies import Strategy, loss_factor
from gradsync.train.evaluate import evaluate
from gradsync.train.precision import Precision
from gradsync.train.task import Task


class LossNotFinite(Exception):
    """Training has diverged on this rank."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many steps to train, on which device, and what each row of the record holds."""

    steps: int
    task: Task
    precision: Precision
    device: torch.device
    rank: int
    size: int
    keep_going: bool
    accumulate: int = 1
    with_metrics: bool = False
    """Whether the row of each step has the metrics of its batch."""

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
    scaler = GradScaler(plan.device.type) if plan.precision.scaled else None
    while step < plan.steps and not plan.stopped():
        epoch += 1
        step = train_epoch(sync, loader, plan, log, scaler, step, epoch)
        if test is not None:
            result = evaluate(sync.model, test, plan.task, plan.precision, plan.device)
            log.write("test", step=step, epoch=epoch, whole=plan.ranks_differ, **result, **plan.step_facts())


def train_epoch(
    sync: Strategy, loader: Loader, plan: Plan, log: RankLog, scaler: GradScaler | None, step: int, epoch: int
) -> int:
    """One pass over the data, or as far as the plan goes; returns the number of steps since the start."""
    meter = sync.comm.meter
    sync.model.train()
    meter.begin()
    meter.phase("data")
    for batch in loader.epoch(epoch):
        plan.pause("data")
        meter.phase("copy")
        batch = batch.to(plan.device)

        sums: list[Tensor] = []
        pieces = min(plan.accumulate, batch.global_count // plan.size)  # the same number on every rank
        for piece in batch.split(pieces):
            with sync.accumulating() if len(sums) < pieces - 1 else nullcontext():
                sums.append(backward(sync, piece, plan, scaler))
        update(sync, scaler)

        step += 1
        loss, *others = torch.stack(sums).sum(0).tolist()
        mean = loss / batch.samples
        facts = {"step": step, "epoch": epoch, "loss": mean, "samples": batch.samples, **plan.step_facts()}
        if plan.with_metrics:
            named = zip(plan.task.metrics, others, strict=True)
            facts["metrics"] = {name: figure_of(name, value / batch.samples) for name, value in named}
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


def backward(sync: Strategy, batch: Batch, plan: Plan, scaler: GradScaler | None) -> Tensor:
    """Forward and backward of one micro-batch: the sum of its losses, and of each metric if they are recorded."""
    meter = sync.comm.meter
    meter.phase("forward")
    plan.pause("forward")
    # The sum over this rank's share, divided by an even share of the global batch: the mean over the ranks is then
    # the mean over the global batch, even where the last batch of an epoch does not split evenly.
    with plan.precision.forward(plan.device):
        outputs = batch.call(sync)
        total = plan.task.loss(outputs, batch.target, batch.samples)
        loss = total * (plan.size / batch.global_count * loss_factor(sync))
        sums = plan.task.sums(outputs, batch) if plan.with_metrics else {}
    meter.phase("backward")
    plan.pause("backward")
    (loss if scaler is None else scaler.scale(loss)).backward()
    total = total.detach()
    return torch.stack(
        [total, *(torch.as_tensor(value, dtype=total.dtype, device=total.device) for value in sums.values())]
    )


def update(sync: Strategy, scaler: GradScaler | None) -> None:
    """The second half of a step. What comes before the update, such as clipping, sees gradients that are unscaled."""
    if scaler is None:
        sync.step()
        return
    sync.comm.meter.phase("agree")
    sync.agree()
    scaler.unscale_(sync.optimizer)
    sync.update(scaler)
