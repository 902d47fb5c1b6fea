"""The training loop, nothing else."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import dataclass

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
    """How far to train, and on what."""

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

    def pause(self, where: str) -> None:
        """The delay that was asked for at this place, if any."""
        if self.injection and (delay := self.injection.delay(self.rank, where)):
            time.sleep(delay)


def train(sync: Strategy, loader: Loader, test: Loader | None, plan: Plan, log: RankLog) -> None:
    """``plan.steps`` steps over as many epochs as that takes, testing at the end of each."""
    step = epoch = 0
    while step < plan.steps and not sync.finished:
        epoch += 1
        step = train_epoch(sync, loader, plan, log, step, epoch)
        if test is not None:
            result = evaluate(sync.model, test, plan.precision, plan.device)
            log.write("test", step=step, epoch=epoch, whole=sync.replicas_differ, **result, **sync.facts())


def train_epoch(sync: Strategy, loader: Loader, plan: Plan, log: RankLog, step: int, epoch: int) -> int:
    """One pass over the data, or as far as the plan goes; returns the number of steps done since the start."""
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
        facts = {"step": step, "epoch": epoch, "loss": mean, "samples": len(labels), **counted, **sync.facts()}
        log.write("step", **facts, **meter.end())
        if not math.isfinite(mean) and not plan.keep_going:
            raise LossNotFinite(
                f"the loss is {mean} at step {step} on rank {plan.rank}. "
                "HINT: lower --lr, or train on with --keep-going."
            )
        if step == plan.steps or sync.finished:
            break
        meter.phase("data")
    return step


def backward(sync: Strategy, inputs: Tensor, labels: Tensor, batch: Batch, plan: Plan) -> Tensor:
    """Forward and backward of a piece of this rank's share: the sum of its losses, and how many it got right."""
    meter = sync.comm.meter
    meter.phase("forward")
    plan.pause("forward")
    # Sum over my share, divided by an even share of the global batch: the ranks' mean is the mean over the
    # global batch also where the last batch of an epoch does not split evenly.
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
