"""The ways in which training loops are written: each must come to the same with N workers as in one process.

A way is a user's own loop on a tiny model: it attaches, trains a few steps, detaches, and returns the parameters.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import StepLR

from gradsync.comm import TorchComm
from gradsync.library.sync import Sync
from gradsync.strategies import Unused, attached
from gradsync.strategies.local import Local

STEPS = 4
FEATURES, SAMPLES_EACH = 5, 4  # of a batch, by worker
CPU = torch.device("cpu")
NORM, VALUE = 0.5, 0.05  # gradients are larger in every step

Batch = tuple[Tensor, Tensor]
Parts = tuple[nn.Module, Optimizer]
Way = Callable[["Script"], list[Tensor]]


class LeftOut(Exception):
    """This way cannot be tried here: why."""


class Attach(Protocol):
    """What a script calls to attach its model: ``gradsync.attach`` with a strategy, or ``alone``."""

    def __call__(self, model: nn.Module, optimizer: Optimizer, *, unused: Unused = "refuse") -> Sync: ...


def alone(model: nn.Module, optimizer: Optimizer, *, unused: Unused = "refuse") -> Sync:
    """In this process, whatever group it is in: what N workers compute is compared with this."""
    return Sync(attached(Local(TorchComm()), model, optimizer), optimizer, unused)


@dataclass(frozen=True)
class Script:
    """What a loop trains, and for how many workers. One process takes the shares of all."""

    attach: Attach
    workers: int
    device: torch.device = CPU
    dtype: torch.dtype = torch.float64

    def place(self, model: nn.Module) -> nn.Module:
        return model.to(self.device, self.dtype)

    def net(self) -> nn.Module:
        torch.manual_seed(0)
        return self.place(nn.Sequential(nn.Linear(FEATURES, 4, bias=False), nn.Tanh(), nn.Linear(4, 1)))

    def sgd(self) -> Parts:
        model = self.net()
        return model, SGD(model.parameters(), lr=0.02, momentum=0.9)

    def batches(self) -> list[Batch]:
        """Those of all workers together."""
        generator = torch.Generator().manual_seed(1)
        shape = (STEPS, SAMPLES_EACH * self.workers, FEATURES)
        inputs = torch.randn(shape, dtype=torch.float64, generator=generator).to(self.device, self.dtype)
        return [(batch, 3 * batch.sum(1, keepdim=True)) for batch in inputs]

    def share(self, batch: Batch, worker: int) -> Batch:
        inputs, targets = batch
        return inputs[worker :: self.workers], targets[worker :: self.workers]

    def workers_here(self, sync: Sync) -> Sequence[int]:
        return [sync.rank] if sync.size == self.workers else range(self.workers)

    def shares(self, sync: Sync) -> Iterator[Batch]:
        """What this process trains on, of every batch."""
        for batch in self.batches():
            yield batch if sync.size == 1 else self.share(batch, sync.rank)


def weights(*models: nn.Module) -> list[Tensor]:
    return [parameter.detach() for model in models for parameter in model.parameters()]


def loop(step: Callable[[Sync], object], parts: Callable[[Script], Parts] = Script.sgd) -> Way:
    """A loop that ends every step in this way."""

    def train(script: Script) -> list[Tensor]:
        model, optimizer = parts(script)
        with script.attach(model, optimizer) as sync:
            for inputs, targets in script.shares(sync):
                mse_loss(sync(inputs), targets).backward()
                step(sync)
        return weights(model)

    return train


def clip_between(sync: Sync) -> None:
    sync.agree()
    clip_grad_norm_(sync.model.parameters(), NORM)
    sync.update()


def clipped_in_hook(script: Script) -> Parts:
    model, optimizer = script.sgd()

    def clip(*_: object) -> None:
        clip_grad_norm_(model.parameters(), NORM)

    optimizer.register_step_pre_hook(clip)
    return model, optimizer


def accumulated(script: Script) -> list[Tensor]:
    """Every step in two micro-batches."""
    model, optimizer = script.sgd()
    with script.attach(model, optimizer) as sync:
        for inputs, targets in script.shares(sync):
            first, last = zip(inputs.chunk(2), targets.chunk(2), strict=True)
            with sync.accumulating():
                (mse_loss(sync(first[0]), first[1]) / 2).backward()
            (mse_loss(sync(last[0]), last[1]) / 2).backward()
            sync.step()
    return weights(model)


def scaled(clip_norm: float | None = None) -> Way:
    """In one step the loss of the first worker overflows, and nobody makes the update."""

    def train(script: Script) -> list[Tensor]:
        model, optimizer = script.sgd()
        scaler = torch.amp.GradScaler(script.device.type, init_scale=1024.0, growth_interval=2)
        with script.attach(model, optimizer) as sync:
            for number, (inputs, targets) in enumerate(script.shares(sync)):
                loss = mse_loss(sync(inputs), targets)
                if number == STEPS // 2 and sync.rank == 0:
                    loss = loss * float("inf")
                scaler.scale(loss).backward()
                sync.step(scaler, clip_norm=clip_norm)
        return [*weights(model), torch.tensor([scaler.get_scale()])]

    return train


def adamw_in_groups(script: Script) -> Parts:
    model = script.net()
    decayed, others = ([p for p in model.parameters() if (p.dim() > 1) is large] for large in (True, False))
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0, "lr": 0.1}]
    return model, AdamW(groups, lr=0.05)


def scheduled(script: Script) -> list[Tensor]:
    model, optimizer = script.sgd()
    schedule = StepLR(optimizer, 2, gamma=0.5)

    def step(sync: Sync) -> None:
        sync.step()
        schedule.step()

    return loop(step, lambda _: (model, optimizer))(script)


def frozen(script: Script) -> Parts:
    model, _ = script.sgd()
    first, *others = model.parameters()
    first.requires_grad_(False)
    return model, SGD(others, lr=0.02, momentum=0.9)


class TwoHeads(nn.Module):
    """The sign of the first feature chooses the head, for all samples of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(FEATURES, 4, bias=False)
        self.heads = nn.ModuleList(nn.Linear(4, 1, bias=False) for _ in range(2))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.heads[int(inputs[0, 0] > 0)](torch.tanh(self.body(inputs)))


def with_unused(script: Script, unused: Unused = "zero") -> list[Tensor]:
    """In some steps some of the workers use a head, in some nobody does: its momentum and its weight decay rest."""
    torch.manual_seed(0)
    model = script.place(TwoHeads())
    optimizer = SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=0.1)
    with script.attach(model, optimizer, unused=unused) as sync:
        for number, batch in enumerate(script.batches()):
            losses = []
            for worker in script.workers_here(sync):
                inputs, targets = script.share(batch, worker)
                head = (number // 2) % 2 if number % 3 else (number + worker) % 2
                inputs = torch.cat([torch.full_like(inputs[:, :1], 2.0 * head - 1.0), inputs[:, 1:]], 1)
                losses.append(mse_loss(sync(inputs), targets))
            torch.stack(losses).mean().backward()
            sync.step()
    return weights(model)


def two_models(script: Script) -> list[Tensor]:
    """A generator and a discriminator with an optimizer each, in the usual order."""
    torch.manual_seed(0)
    maker, judge = script.place(nn.Linear(FEATURES, 3)), script.place(nn.Linear(3, 1))
    with (
        script.attach(maker, SGD(maker.parameters(), 0.02)) as make,
        script.attach(judge, Adam(judge.parameters(), 0.02)) as rate,
    ):
        for inputs, targets in script.shares(make):
            mse_loss(rate(maker(inputs).detach()), targets).backward()
            rate.step()
            judge.requires_grad_(False)
            (-judge(make(inputs)).mean()).backward()
            make.step()
            judge.requires_grad_(True)
    return weights(maker, judge)


def uneven(*counts: int, epochs: int = 1, in_loop: bool = True, clip_norm: float | None = None) -> Way:
    """The workers have these numbers of batches, in turn. One process trains on what they still have together."""

    def train(script: Script) -> list[Tensor]:
        model, optimizer = script.sgd()
        have = [counts[worker % len(counts)] for worker in range(script.workers)]
        with script.attach(model, optimizer) as sync:
            for _ in range(epochs):
                if sync.size > 1:
                    own = [script.share(batch, sync.rank) for batch in script.batches()[: have[sync.rank]]]
                    steps: Iterable[list[Batch]] = ([share] for share in (sync.batches(own) if in_loop else own))
                else:
                    steps = (
                        [script.share(batch, worker) for worker, count in enumerate(have) if number < count]
                        for number, batch in enumerate(script.batches()[: max(have)])
                    )
                for shares in steps:
                    torch.stack([mse_loss(sync(inputs), targets) for inputs, targets in shares]).mean().backward()
                    sync.step(clip_norm=clip_norm)
        return weights(model)

    return train


def compiled(script: Script) -> Parts:
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        raise LeftOut("torch.compile needs a C compiler, and none is here")
    model, optimizer = script.sgd()
    return cast(nn.Module, torch.compile(model, backend="aot_eager")), optimizer


PLAIN = "a plain loop"

WAYS: dict[str, Way] = {
    PLAIN: loop(lambda sync: sync.step()),
    "clipping by norm": loop(lambda sync: sync.step(clip_norm=NORM)),
    "clipping by value": loop(lambda sync: sync.step(clip_value=VALUE)),
    "clipping between agree and update": loop(clip_between),
    "clipping in a hook of the optimizer": loop(lambda sync: sync.step(), clipped_in_hook),
    "gradient accumulation": accumulated,
    "GradScaler": scaled(),
    "GradScaler and clipping": scaled(NORM),
    "AdamW with parameter groups": loop(lambda sync: sync.step(), adamw_in_groups),
    "learning-rate schedule": scheduled,
    "frozen parameters": loop(lambda sync: sync.step(), frozen),
    "parameters unused in some steps": with_unused,
    "two models, two optimizers": two_models,
    "uneven numbers of batches": uneven(4, 2, 3, epochs=2),
    "uneven and clipping": uneven(4, 2, 3, epochs=2, clip_norm=NORM),
    "uneven, without sync.batches": uneven(0, 3, 1, in_loop=False),
    "torch.compile": loop(lambda sync: sync.step(), compiled),
}
"""Every way by the name of its row in the conformance table."""
