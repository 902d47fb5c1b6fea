"""A user's own loop whose ranks have different numbers of batches, in several epochs that end with an even step.

Started by test_uneven_loop_integration.py in three processes. Every rank writes a file of JSON: what each strategy
came to in each way, or the sentence it raised. In one process, a way computes what it must come to.
"""

from __future__ import annotations

import copy
import json
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import OneCycleLR

import gradsync
from gradsync.comm import TorchComm
from gradsync.comm.torch import host_group
from gradsync.errors import InputError
from gradsync.library.sync import Sync
from gradsync.rank import world
from gradsync.testing.ways import Script, TwoHeads, alone, weights

WORKERS = 3
EPOCHS = ((4, 2, 3), (2, 4, 3), (1, 1, 1))
"""How many batches the workers have in each epoch: never enough on one rank for all, and in the end one even step."""

TOTAL_STEPS = sum(map(max, EPOCHS))
LIMIT, SMALL_LIMIT = 0.5, 0.05

Parts = tuple[nn.Module, Optimizer]
Step = Callable[[Sync], object]
Way = Callable[[str], list[float]]
ALONE = Script(alone, WORKERS)


def attach(parts: Parts, strategy: str, **more: str) -> Sync:
    return gradsync.attach(*parts, strategy, buffers="broadcast", **more)


def workers_here(sync: Sync, number: int, counts: tuple[int, ...]) -> list[int]:
    """Those whose batch of this number is computed here."""
    return [worker for worker in ALONE.workers_here(sync) if number < counts[worker]]


def own_batches(sync: Sync, counts: tuple[int, ...]) -> Iterable[tuple[int, tuple[Tensor, Tensor]]]:
    most = max(counts[worker] for worker in ALONE.workers_here(sync))
    return sync.batches(list(enumerate(ALONE.batches()[:most])))


def loss_of(sync: Sync, batch: tuple[Tensor, Tensor], workers: list[int]) -> Tensor:
    shares = [ALONE.share(batch, worker) for worker in workers]
    return torch.stack([mse_loss(sync(inputs), targets) for inputs, targets in shares]).mean()


def found_of(*attached: tuple[Sync, Parts]) -> list[float]:
    """The parameters, and whether all else the next step depends on has the same bits on every rank."""
    numbers = [
        number for _, (model, _) in attached for tensor in weights(model) for number in tensor.flatten().tolist()
    ]
    return [*numbers, *(same_on_all_ranks(sync, *parts) for sync, parts in attached)]


def same_on_all_ranks(sync: Sync, model: nn.Module, optimizer: Optimizer) -> float:
    state = [value for one in optimizer.state_dict()["state"].values() for value in one.values()]
    rates = torch.tensor([group["lr"] for group in optimizer.param_groups], dtype=torch.float64)
    same = True
    for tensor in [*model.buffers(), *(each for each in state if isinstance(each, Tensor)), rates]:
        theirs = tensor.clone()
        sync.comm.broadcast(theirs)
        same = same and torch.equal(tensor, theirs)
    return float(same)


def epochs(
    step: Step, parts: Callable[[], Parts] = ALONE.sgd, scale: Callable[[Tensor], Tensor] = torch.clone
) -> Way:
    """A loop that ends every step in this way."""

    def train(strategy: str) -> list[float]:
        made = parts()
        with attach(made, strategy) as sync:
            for counts in EPOCHS:
                for number, batch in own_batches(sync, counts):
                    scale(loss_of(sync, batch, workers_here(sync, number, counts))).backward()
                    step(sync)
        return found_of((sync, made))

    return train


def scheduled(strategy: str) -> list[float]:
    """A schedule that is stepped in the loop, which a rank without a batch is not in."""
    model = ALONE.net()
    optimizer = AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
    schedule = OneCycleLR(optimizer, 0.05, total_steps=TOTAL_STEPS + 1)
    way = epochs(lambda sync: (sync.step(clip_norm=SMALL_LIMIT), schedule.step()), lambda: (model, optimizer))
    return [*way(strategy), *optimizer.param_groups[0]["betas"]]


def scaled(strategy: str) -> list[float]:
    """The scale grows every other step, and some ranks are not there in some of them."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    way = epochs(lambda sync: sync.step(scaler, clip_norm=LIMIT), scale=scaler.scale)
    return [*way(strategy), scaler.get_scale()]


def with_batchnorm() -> Parts:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    return model, SGD(model.parameters(), lr=0.02, momentum=0.9)


def two_heads() -> Parts:
    torch.manual_seed(0)
    model = TwoHeads().double()
    return model, SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=0.1)


def with_unused(strategy: str) -> list[float]:
    """The sign of a feature chooses one of two heads; the momentum of a head that nobody uses rests."""
    made = two_heads()
    with attach(made, strategy, unused="zero") as sync:
        for counts in EPOCHS:
            for number, batch in own_batches(sync, counts):
                loss_of(sync, batch, workers_here(sync, number, counts)).backward()
                sync.step()
    return found_of((sync, made))


def two_models(strategy: str) -> list[float]:
    """Each agrees, then both update in the other order; the second is stepped every other time."""
    made = [ALONE.sgd(), with_batchnorm()]
    both = [attach(parts, strategy) for parts in made]
    counts = EPOCHS[0]
    for number, batch in own_batches(both[0], counts):
        stepped = both[: 1 + number % 2]
        for sync in stepped:
            loss_of(sync, batch, workers_here(sync, number, counts)).backward()
            sync.agree()
        for sync in reversed(stepped):
            sync.update()
    found = found_of(*zip(both, made, strict=True))
    for sync in both:
        sync.detach()
    return found


def tested_with_gradients(strategy: str) -> list[float]:
    """After the last step the model is called with gradients, as in a test without no_grad; then comes a backward."""
    model = ALONE.net()
    made = model, AdamW(model.parameters(), 0.05)
    with attach(made, strategy) as sync:
        for inputs, targets in sync.batches(ALONE.shares(sync)):
            mse_loss(sync(inputs), targets).backward()
            sync.step()
        sync(ALONE.batches()[0][0])
        sync.wait_for_others()
        for inputs, targets in sync.batches(list(ALONE.shares(sync))[:1]):
            mse_loss(sync(inputs), targets).backward()
    return [*found_of((sync, made)), sync.steps]


def with_own_count(strategy: str) -> list[float]:
    """The script counts its own steps, which are fewer where a rank has run out of batches."""
    steps = iter(range(1, TOTAL_STEPS + 1))

    def step(sync: Sync) -> None:
        sync.optimizer.param_groups[0]["lr"] = 0.1 / next(steps)
        sync.step()

    return epochs(step)(strategy)


def with_sync_bn(strategy: str) -> list[float]:
    made = with_batchnorm()
    with gradsync.attach(*made, strategy, sync_bn=True) as sync:
        for number, batch in own_batches(sync, (3, 2, 3)):
            loss_of(sync, batch, workers_here(sync, number, (3, 2, 3))).backward()
            sync.step()
    return []


RIGHT: dict[str, Way] = {
    "plain": epochs(lambda sync: sync.step()),
    "clipped by norm": epochs(lambda sync: sync.step(clip_norm=LIMIT)),
    "clipped by value": epochs(lambda sync: sync.step(clip_value=SMALL_LIMIT)),
    "scheduled": scheduled,
    "scaled": scaled,
    "batchnorm": epochs(lambda sync: sync.step(), with_batchnorm),
    "unused": with_unused,
    "two models": two_models,
    "tested with gradients": tested_with_gradients,
}
"""What must come to the same as in one process."""

REFUSED: dict[str, Way] = {"own count": with_own_count, "sync_bn": with_sync_bn}


def outcome(way: Way, strategy: str) -> list[float] | str:
    try:
        return way(strategy)
    except InputError as error:
        return str(error)


def over_gloo(comm: TorchComm) -> TorchComm:
    """A group of its own for the small messages, as beside NCCL."""
    other = copy.copy(comm)
    other._group = host_group(dist.group.WORLD)
    return other


def main(folder: str, strategies: list[str]) -> None:
    warnings.simplefilter("error")
    TorchComm.on_host = over_gloo
    ways = RIGHT | REFUSED
    found = {f"{strategy} {name}": outcome(way, strategy) for strategy in strategies for name, way in ways.items()}
    Path(folder, f"{world.current().rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
