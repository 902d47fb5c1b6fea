"""A user's own training loop that clips, in as many processes as started it. Prints a line of JSON on every rank.

Started by test_own_loop_integration.py: what each strategy came to, or the sentence it raised.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable

import torch
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_

import gradsync
from gradsync.errors import InputError

STEPS, BATCH, LIMIT = 30, 12, 0.5
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


def outcome(strategy: str, touch: Touch, in_hook: Touch | None = None) -> list[float] | str:
    try:
        return trained(strategy, touch, in_hook=in_hook)
    except InputError as error:
        return str(error)


def main(strategies: list[str]) -> None:
    warnings.simplefilter("error")
    found = {}
    for strategy in strategies:
        found |= {f"{strategy} {name}": outcome(strategy, touch) for name, touch in TOUCHES.items()}
        found[f"{strategy} in a hook"] = outcome(strategy, TOUCHES["not at all"], clip)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
