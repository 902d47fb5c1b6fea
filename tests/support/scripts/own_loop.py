"""A user's own training loop in the ways such loops are written, and one that attaches strategies in turn.

Started by test_own_loop_integration.py in two and in three processes. Every rank writes a file of JSON: what each
strategy came to in each way, or the sentence it raised. In one process, a way computes what it must come to.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

import gradsync
from gradsync.comm import TorchComm
from gradsync.errors import InputError
from gradsync.library.sync import Sync
from gradsync.meter.recorder import Recorder
from gradsync.rank import world
from gradsync.strategies import Strategy, attached, construct

WORKERS = int(os.environ.get("WORLD_SIZE", 2))
"""The parts of a batch. One process computes with as many as it is compared with: tests set it."""

STEPS, BATCH, LIMIT, SMALL_LIMIT, FEW = 30, 12, 0.5, 0.05, 3


def start() -> tuple[nn.Module, Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def batches(steps: int = STEPS) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(STEPS, BATCH, 5, dtype=torch.float64, generator=generator)
    return [(piece, 3 * piece.sum(1, keepdim=True)) for piece in inputs[:steps]]


def weights(model: nn.Module) -> list[float]:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).tolist()


def shares(sync: Sync, steps: int = STEPS) -> Iterable[tuple[Tensor, Tensor]]:
    """This rank's part of every batch."""
    for inputs, targets in batches(steps):
        yield inputs[sync.rank :: sync.size], targets[sync.rank :: sync.size]


def parts(sync: Sync) -> Iterable[int]:
    """Of every batch, those that this process computes: its own, or in one process all."""
    return [sync.rank] if sync.size > 1 else range(WORKERS)


def loss_of(sync: Sync, part: int, inputs: Tensor, targets: Tensor) -> Tensor:
    return mse_loss(sync(inputs[part::WORKERS]), targets[part::WORKERS])


def attach(model: nn.Module, optimizer: Optimizer, strategy: str, **more: Any) -> Sync:
    """The replicas of data-parallel compute the parts of a batch in one process."""
    replicas = WORKERS if strategy == "data-parallel" else 1
    return gradsync.attach(model, optimizer, strategy, replicas=replicas, **more)


Step = Callable[[Sync], object]


def loop(step: Step, made: Callable[[], tuple[nn.Module, Optimizer]] = start) -> Callable[[str], list[float]]:
    """A loop that ends every step in this way."""

    def train(strategy: str) -> list[float]:
        model, optimizer = made()
        with attach(model, optimizer, strategy) as sync:
            for inputs, targets in shares(sync):
                mse_loss(sync(inputs), targets).backward()
                step(sync)
        return weights(model)

    return train


def clip_between(sync: Sync) -> None:
    sync.agree()
    clip_grad_norm_(sync.model.parameters(), LIMIT)
    sync.update()


def clip_too_early(sync: Sync) -> None:
    clip_grad_norm_(sync.model.parameters(), LIMIT)
    sync.step()


def clip_data_too_early(sync: Sync) -> None:
    for parameter in sync.model.parameters():
        parameter.grad.data.clamp_(-SMALL_LIMIT, SMALL_LIMIT)
    sync.step()


def replace_too_early(sync: Sync) -> None:
    for parameter in sync.model.parameters():
        parameter.grad = parameter.grad.clamp(-SMALL_LIMIT, SMALL_LIMIT)
    sync.step()


def read_too_early(sync: Sync) -> None:
    for parameter in sync.model.parameters():
        parameter.grad.norm()
    sync.step()


def clear_too_early(sync: Sync) -> None:
    sync.model.zero_grad()
    sync.step()


def clip_in_hook(strategy: str) -> list[float]:
    model, optimizer = start()

    def clip(*_: object) -> None:
        clip_grad_norm_(model.parameters(), LIMIT)

    optimizer.register_step_pre_hook(clip)
    return loop(lambda sync: sync.step(), lambda: (model, optimizer))(strategy)


def accumulated(strategy: str) -> list[float]:
    """Every step in two micro-batches, clipped."""
    model, optimizer = start()
    with attach(model, optimizer, strategy) as sync:
        for inputs, targets in shares(sync):
            first, last = zip(inputs.chunk(2), targets.chunk(2), strict=True)
            with sync.accumulating():
                (mse_loss(sync(first[0]), first[1]) / 2).backward()
            (mse_loss(sync(last[0]), last[1]) / 2).backward()
            sync.step(clip_norm=LIMIT)
    return weights(model)


def scaled(strategy: str) -> list[float]:
    """With a GradScaler; in one step the loss of one half of the batch overflows, and nobody makes the update."""
    model, optimizer = start()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=5)
    with attach(model, optimizer, strategy) as sync:
        for number, (inputs, targets) in enumerate(shares(sync)):
            loss = mse_loss(sync(inputs), targets)
            if number == FEW and sync.rank == 0:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            sync.step(scaler, clip_norm=LIMIT)
    return [*weights(model), scaler.get_scale()]


def adamw_in_groups() -> tuple[nn.Module, Optimizer]:
    """Parameter groups with and without weight decay, a schedule, and a frozen parameter."""
    model, _ = start()
    model[0].bias.requires_grad_(False)
    decayed = [model[0].weight, model[2].weight]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": [model[2].bias], "weight_decay": 0.0}]
    return model, torch.optim.AdamW(groups, lr=0.05)


def scheduled(strategy: str) -> list[float]:
    model, optimizer = adamw_in_groups()
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=STEPS + 1)
    return loop(lambda sync: (sync.step(clip_norm=LIMIT), schedule.step()), lambda: (model, optimizer))(strategy)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(5, 4)
        self.heads = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])

    def forward(self, inputs: Tensor, head: int) -> Tensor:
        return self.heads[head](torch.tanh(self.body(inputs)))


def two_heads() -> tuple[nn.Module, Optimizer]:
    torch.manual_seed(0)
    model = TwoHeads().double()
    return model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=0.1)


def with_unused(strategy: str, unused: str = "zero", counts: tuple[int, ...] = (STEPS,) * 3) -> list[float]:
    """Each part of a batch goes through one of two heads: in some steps one part uses a head, in some nobody does."""
    model, optimizer = two_heads()
    with attach(model, optimizer, strategy, unused=unused) as sync:
        for number, (inputs, targets) in enumerate(batches(longest(sync, counts))):
            losses = []
            for part in [part for part in parts(sync) if number < counts[part]]:
                head = (number // 2) % 2 if number % 3 else (number + part) % 2
                losses.append(mse_loss(sync(inputs[part::WORKERS], head), targets[part::WORKERS]))
            torch.stack(losses).mean().backward()
            sync.step()
    return weights(model)


def two_models(strategy: str) -> list[float]:
    """A generator and a discriminator with an optimizer each, in the usual order."""
    torch.manual_seed(0)
    maker, judge = nn.Linear(5, 3).double(), nn.Linear(3, 1).double()
    make = attach(maker, torch.optim.SGD(maker.parameters(), 0.02), strategy)
    rate = attach(judge, torch.optim.Adam(judge.parameters(), 0.02), strategy)
    for inputs, targets in shares(make):
        mse_loss(rate(maker(inputs).detach()), targets).backward()
        rate.step(clip_norm=LIMIT)
        for parameter in judge.parameters():
            parameter.requires_grad_(False)
        (-judge(make(inputs)).mean()).backward()
        make.step()
        for parameter in judge.parameters():
            parameter.requires_grad_(True)
    make.detach()
    rate.detach()
    return [*weights(maker), *weights(judge)]


def compiled(strategy: str) -> list[float]:
    model, optimizer = start()
    made = torch.compile(model, backend="aot_eager"), optimizer
    return loop(lambda sync: sync.step(clip_norm=LIMIT), lambda: made)(strategy)


def longest(sync: Sync, counts: tuple[int, ...]) -> int:
    """How many batches this process has: in one process, as many as any part."""
    return max(counts[part] for part in parts(sync))


def uneven(counts: tuple[int, ...], *, in_loop: bool = True) -> Callable[[str], list[float]]:
    """Part p of the batches has counts[p] of them. One process trains on what the parts together still have."""

    def train(strategy: str) -> list[float]:
        model, optimizer = start()
        with attach(model, optimizer, strategy) as sync:
            own = list(enumerate(batches(longest(sync, counts))))
            for number, (inputs, targets) in sync.batches(own) if in_loop else own:
                losses = [loss_of(sync, part, inputs, targets) for part in parts(sync) if number < counts[part]]
                torch.stack(losses).mean().backward()
                sync.step(clip_norm=LIMIT)
        return weights(model)

    return train


EPOCHS = ((7, 4, 6), (3, 6, 6), (1, 1, 1))
"""How many batches the parts have in each epoch: never enough on one rank for all, and in the end one even step."""


def epochs(
    step: Step,
    made: Callable[[], tuple[nn.Module, Optimizer]] = start,
    scale: Callable[[Tensor], Tensor] = torch.clone,
) -> Callable[[str], list[float]]:
    def train(strategy: str) -> list[float]:
        model, optimizer = made()
        with attach(model, optimizer, strategy, buffers="broadcast") as sync:
            for counts in EPOCHS:
                for number, (inputs, targets) in sync.batches(enumerate(batches(longest(sync, counts)))):
                    losses = [loss_of(sync, part, inputs, targets) for part in parts(sync) if number < counts[part]]
                    scale(torch.stack(losses).mean()).backward()
                    step(sync)
        return [*weights(model), same_on_all_ranks(sync, model, optimizer)]

    return train


def same_on_all_ranks(sync: Sync, model: nn.Module, optimizer: Optimizer) -> float:
    """Whether all that the next step depends on has the same bits as on rank 0, apart from the parameters."""
    state = [value for one in optimizer.state_dict()["state"].values() for value in one.values()]
    rates = torch.tensor([group["lr"] for group in optimizer.param_groups], dtype=torch.float64)
    same = True
    for tensor in [*model.buffers(), *state, rates]:
        theirs = tensor.clone()
        sync.comm.broadcast(theirs)
        same = same and torch.equal(tensor, theirs)
    return float(same)


def scheduled_epochs(strategy: str) -> list[float]:
    """AdamW with a schedule that is stepped in the loop, which a rank without a batch is not in."""
    model, optimizer = adamw_in_groups()
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=STEPS + 1)
    way = epochs(lambda sync: (sync.step(clip_norm=SMALL_LIMIT), schedule.step()), lambda: (model, optimizer))
    return [*way(strategy), *optimizer.param_groups[0]["betas"]]


def scaled_epochs(strategy: str) -> list[float]:
    """The scale grows every other step, and rank 1 is not there in some of them."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

    way = epochs(lambda sync: sync.step(scaler, clip_norm=LIMIT), scale=scaler.scale)
    return [*way(strategy), scaler.get_scale()]


def with_batchnorm() -> tuple[nn.Module, Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def two_models_uneven(strategy: str) -> list[float]:
    """Each agrees, then both update in the other order; the second is stepped every other time."""
    models = [start(), with_batchnorm()]
    one, other = (attach(*pair, strategy, buffers="broadcast") for pair in models)
    counts = (5, 2, 4)
    for number, (inputs, targets) in one.batches(enumerate(batches(longest(one, counts)))):
        for sync in (one, other)[: 1 + number % 2]:
            losses = [loss_of(sync, part, inputs, targets) for part in parts(sync) if number < counts[part]]
            torch.stack(losses).mean().backward()
            sync.agree()
        for sync in reversed((one, other)[: 1 + number % 2]):
            sync.update()
    found = [*weights(models[0][0]), *weights(models[1][0])]
    found += [same_on_all_ranks(sync, *pair) for sync, pair in zip((one, other), models, strict=True)]
    one.detach()
    other.detach()
    return found


def tested_with_gradients(strategy: str) -> list[float]:
    """After the last step the model is called with gradients, as in a test without no_grad; then comes a backward."""
    model, _ = start()
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    with attach(model, optimizer, strategy) as sync:
        for inputs, targets in sync.batches(shares(sync, FEW)):
            mse_loss(sync(inputs), targets).backward()
            sync.step()
        sync(batches(1)[0][0])
        sync.wait_for_others()
        for inputs, targets in sync.batches(shares(sync, 1)):
            mse_loss(sync(inputs), targets).backward()
    return [*weights(model), sync.steps]


def with_closure(strategy: str) -> list[float]:
    return loop(lambda sync: sync.step(lambda: 0.0))(strategy)


def with_closure_by_name(strategy: str) -> list[float]:
    return loop(lambda sync: sync.step(closure=lambda: 0.0))(strategy)


def with_own_count(strategy: str) -> list[float]:
    """The script counts its own steps, which are fewer where a rank has run out of batches."""
    steps = iter(range(1, STEPS))

    def step(sync: Sync) -> None:
        sync.optimizer.param_groups[0]["lr"] = 0.1 / next(steps)
        sync.step()

    return epochs(step)(strategy)


def with_sync_bn(strategy: str) -> list[float]:
    counts = (4, 2, 4)
    with attach(*with_batchnorm(), strategy, sync_bn=True) as sync:
        for inputs, targets in sync.batches(shares(sync, longest(sync, counts))):
            mse_loss(sync(inputs), targets).backward()
            sync.step()
    return []


def needs_closure(strategy: str) -> list[float]:
    model, _ = start()
    return loop(lambda sync: sync.step(), lambda: (model, torch.optim.LBFGS(model.parameters())))(strategy)


Way = Callable[[str], list[float]]

RIGHT: dict[str, Way] = {
    "not at all": loop(lambda sync: sync.step()),
    "clipped by norm": loop(lambda sync: sync.step(clip_norm=LIMIT)),
    "clipped by value": loop(lambda sync: sync.step(clip_value=SMALL_LIMIT)),
    "agreed, clipped, updated": loop(clip_between),
    "clipped in a hook": clip_in_hook,
    "accumulated": accumulated,
    "scaled": scaled,
    "scheduled": scheduled,
    "unused": with_unused,
    "two models": two_models,
    "compiled": compiled,
    "uneven": uneven((7, 4, 6)),
    "uneven, without sync.batches": uneven((3, 6, 6), in_loop=False),
    "one without any": uneven((0, 4, 2)),
    "uneven epochs": epochs(lambda sync: sync.step(clip_norm=LIMIT)),
    "uneven epochs, clipped by value": epochs(lambda sync: sync.step(clip_value=SMALL_LIMIT)),
    "uneven epochs, scheduled": scheduled_epochs,
    "uneven epochs, scaled": scaled_epochs,
    "uneven epochs, batchnorm": epochs(lambda sync: sync.step(), with_batchnorm),
    "uneven, unused": lambda strategy: with_unused(strategy, counts=(9, 4, 6)),
    "uneven, two models": two_models_uneven,
    "tested with gradients": tested_with_gradients,
}
"""What must come to the same as in one process."""

OF_RANKS = [name for name in RIGHT if name != "compiled"]
"""In which the number of ranks may matter."""

TOUCHED: dict[str, Way] = {
    "read": loop(read_too_early),
    "clipped": loop(clip_too_early),
    "clipped through data": loop(clip_data_too_early),
    "replaced": loop(replace_too_early),
    "cleared": loop(clear_too_early),
}
"""What is done to gradients before the workers have agreed: harmless, right with some strategies, or refused."""

REFUSED: dict[str, Way] = {
    "a closure": with_closure,
    "a closure by name": with_closure_by_name,
    "LBFGS": needs_closure,
    "unused": lambda strategy: with_unused(strategy, "refuse"),
    "update alone": loop(lambda sync: sync.update()),
    "agree twice": loop(lambda sync: (sync.agree(), sync.step())),
    "own count": with_own_count,
    "sync_bn": with_sync_bn,
}


def attached_again(strategy: str) -> dict[str, object]:
    """Attached, detached, trained bare, attached again, and once more by another object without detaching.

    Each time beside a model of the same state that was never attached before: the collectives of every step, and
    whether both hold the same bits afterwards.
    """
    model, optimizer = start()
    sync = counting(strategy)
    found: dict[str, object] = {"first": counted_steps(attached(sync, model, optimizer))}
    sync.detach()
    fresh = clone(model, optimizer)
    plain_steps(model, optimizer)
    plain_steps(*fresh)
    found["calls while bare"] = len(sync.comm.meter.take_calls())
    found["bare"] = weights(model) == weights(fresh[0])
    for turn, again in (("again", sync), ("by another", counting(strategy))):
        fresh = clone(model, optimizer)
        counts = counted_steps(attached(again, model, optimizer))
        found[turn] = counts
        found[f"{turn}, fresh"] = counted_steps(attached(counting(strategy), *fresh))
        found[f"{turn}, same"] = weights(model) == weights(fresh[0])
    return found


def counting(strategy: str) -> Strategy:
    """With a meter, which knows of every collective, DDP's own included."""
    here = world.current()
    return construct(strategy, TorchComm(here.rank, here.size, Recorder()), None, {})


def counted_steps(sync: Strategy) -> list[int]:
    counts = []
    for inputs, targets in batches()[:FEW]:
        sync.comm.meter.take_calls()
        share = slice(sync.comm.rank, None, sync.comm.size)
        (mse_loss(sync(inputs[share]), targets[share]) * sync.loss_scale).backward()
        sync.step()
        counts.append(len(sync.comm.meter.take_calls()))
    return counts


def plain_steps(model: nn.Module, optimizer: Optimizer) -> None:
    for inputs, targets in batches()[:FEW]:
        mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


def clone(model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
    other, its_optimizer = start()
    other.load_state_dict(model.state_dict())
    its_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return other, its_optimizer


def outcome(way: Way, strategy: str) -> list[float] | str:
    try:
        return way(strategy)
    except InputError as error:
        return str(error)


def main(folder: str, how_much: str, strategies: list[str]) -> None:
    """``how_much``: all, or right."""
    warnings.simplefilter("error")
    found: dict[str, object] = {}
    for strategy in strategies:
        if how_much == "right":
            found |= {f"{strategy} {name}": outcome(RIGHT[name], strategy) for name in OF_RANKS}
            continue
        found |= {f"{strategy} {name}": outcome(way, strategy) for name, way in (RIGHT | TOUCHED).items()}
        found |= {f"{strategy} refused {name}": outcome(way, strategy) for name, way in REFUSED.items()}
        found[f"{strategy} attached again"] = attached_again(strategy)
    Path(folder, f"{world.current().rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
