"""A user's own training loop that clips, and one that attaches strategies in turn, in several processes.

Started by test_own_loop_integration.py. Every rank prints a line of JSON: what each strategy came to, or the sentence
it raised.
"""

from __future__ import annotations

import copy
import json
import sys
import warnings
from collections.abc import Callable

import torch
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_

import gradsync
from gradsync.comm import TorchComm
from gradsync.errors import InputError
from gradsync.meter.recorder import Recorder
from gradsync.rank import world
from gradsync.strategies import Strategy, attached, construct

STEPS, BATCH, LIMIT, FEW = 30, 12, 0.5, 3
Touch = Callable[[torch.nn.Module], object]


def clip(model: torch.nn.Module) -> None:
    clip_grad_norm_(model.parameters(), LIMIT)


TOUCHES: dict[str, Touch] = {
    "not at all": lambda model: None,
    "clipped": clip,
    "read": lambda model: [parameter.grad.norm() for parameter in model.parameters()],
    "cleared": lambda model: model.zero_grad(),
}


def start() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(STEPS, BATCH, 5, dtype=torch.float64, generator=generator)
    return [(piece, 3 * piece.sum(1, keepdim=True)) for piece in inputs]


def weights(model: torch.nn.Module) -> list[float]:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).tolist()


def trained(strategy: str, touch: Touch, *, in_hook: Touch | None = None) -> list[float]:
    """``touch`` comes between backward and step, ``in_hook`` where the optimizer's step begins."""
    model, optimizer = start()
    sync = gradsync.attach(model, optimizer, strategy=strategy)
    if in_hook:
        optimizer.register_step_pre_hook(lambda *_: in_hook(model))
    rank, size = sync.comm.rank, sync.comm.size
    for inputs, targets in batches():
        mse_loss(sync(inputs[rank::size]), targets[rank::size]).backward()
        touch(model)
        sync.step()
    return weights(model)


def clipped_by_each(size: int) -> list[float]:
    """One process that does what ``size`` workers do which clip their own gradients before these are averaged."""
    model, optimizer = start()
    for inputs, targets in batches():
        shares = []
        for rank in range(size):
            optimizer.zero_grad()
            mse_loss(model(inputs[rank::size]), targets[rank::size]).backward()
            clip(model)
            shares.append([parameter.grad.clone() for parameter in model.parameters()])
        for parameter, *gradients in zip(model.parameters(), *shares, strict=True):
            parameter.grad = torch.stack(gradients).mean(0)
        optimizer.step()
    return weights(model)


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


def plain_steps(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for inputs, targets in batches()[:FEW]:
        mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


def clone(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    other, its_optimizer = start()
    other.load_state_dict(model.state_dict())
    its_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return other, its_optimizer


def outcome(strategy: str, touch: Touch, in_hook: Touch | None = None) -> list[float] | str:
    try:
        return trained(strategy, touch, in_hook=in_hook)
    except InputError as error:
        return str(error)


def main(strategies: list[str]) -> None:
    warnings.simplefilter("error")
    found: dict[str, object] = {}
    for strategy in strategies:
        found |= {f"{strategy} {name}": outcome(strategy, touch) for name, touch in TOUCHES.items()}
        found[f"{strategy} in a hook"] = outcome(strategy, TOUCHES["not at all"], clip)
        found[f"{strategy} attached again"] = attached_again(strategy)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
