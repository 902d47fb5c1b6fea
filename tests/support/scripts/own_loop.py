"""A user's own training loop in the ways such loops are written, and one that attaches strategies in turn.

Started by test_own_loop_integration.py in several processes. Every rank writes a file of JSON: what each strategy
came to in each way, or the sentence it raised. In one process, a way computes what it must come to.
"""

from __future__ import annotations

import copy
import json
import sys
import warnings
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

import gradsync
from gradsync.comm import TorchComm
from gradsync.errors import InputError
from gradsync.library.sync import Sync
from gradsync.meter.recorder import Recorder
from gradsync.rank import world
from gradsync.strategies import Strategy, attached, construct, loss_factor
from gradsync.testing.ways import NORM, VALUE, WAYS, Attach, Script, Way, alone, loop, weights, with_unused

WORKERS, FEW = 2, 3
ALONE = Script(alone, WORKERS)


def clip_too_early(sync: Sync) -> None:
    clip_grad_norm_(sync.model.parameters(), NORM)
    sync.step()


def clip_data_too_early(sync: Sync) -> None:
    for parameter in sync.model.parameters():
        parameter.grad.data.clamp_(-VALUE, VALUE)
    sync.step()


def replace_too_early(sync: Sync) -> None:
    for parameter in sync.model.parameters():
        parameter.grad = parameter.grad.clamp(-VALUE, VALUE)
    sync.step()


def read_too_early(sync: Sync) -> None:
    for parameter in sync.model.parameters():
        parameter.grad.norm()
    sync.step()


def clear_too_early(sync: Sync) -> None:
    sync.model.zero_grad()
    sync.step()


TOUCHED: dict[str, Way] = {
    "read": loop(read_too_early),
    "clipped": loop(clip_too_early),
    "clipped through data": loop(clip_data_too_early),
    "replaced": loop(replace_too_early),
    "cleared": loop(clear_too_early),
}
"""What is done to gradients before the workers have agreed: harmless, right with some strategies, or refused."""


def needs_closure(script: Script) -> tuple[nn.Module, Optimizer]:
    model = script.net()
    return model, torch.optim.LBFGS(model.parameters())


REFUSED: dict[str, Way] = {
    "a closure": loop(lambda sync: sync.step(lambda: 0.0)),
    "a closure by name": loop(lambda sync: sync.step(closure=lambda: 0.0)),
    "LBFGS": loop(lambda sync: sync.step(), needs_closure),
    "unused": lambda script: with_unused(script, "refuse"),
    "update alone": loop(lambda sync: sync.update()),
    "agree twice": loop(lambda sync: (sync.agree(), sync.step())),
}


def numbers(way: Way, script: Script = ALONE) -> list[float]:
    return torch.cat([tensor.flatten() for tensor in way(script)]).tolist()


def attached_again(strategy: str) -> dict[str, object]:
    """Attached, detached, trained bare, attached again, and once more by another object without detaching.

    Each time beside a model of the same state that was never attached before: the collectives of every step, and
    whether both hold the same bits afterwards.
    """
    model, optimizer = ALONE.sgd()
    sync = counting(strategy)
    found: dict[str, object] = {"first": counted_steps(attached(sync, model, optimizer))}
    sync.detach()
    fresh = clone(model, optimizer)
    plain_steps(model, optimizer)
    plain_steps(*fresh)
    found["calls while bare"] = len(sync.comm.meter.take_calls())
    found["bare"] = same(model, fresh[0])
    for turn, again in (("again", sync), ("by another", counting(strategy))):
        fresh = clone(model, optimizer)
        counts = counted_steps(attached(again, model, optimizer))
        found[turn] = counts
        found[f"{turn}, fresh"] = counted_steps(attached(counting(strategy), *fresh))
        found[f"{turn}, same"] = same(model, fresh[0])
    return found


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(map(torch.equal, weights(one), weights(other)))


def counting(strategy: str) -> Strategy:
    """With a meter, which knows of every collective, DDP's own included."""
    here = world.current()
    return construct(strategy, TorchComm(here.rank, here.size, Recorder()), None, {})


def counted_steps(sync: Strategy) -> list[int]:
    counts = []
    for inputs, targets in ALONE.batches()[:FEW]:
        sync.comm.meter.take_calls()
        share = slice(sync.comm.rank, None, sync.comm.size)
        (mse_loss(sync(inputs[share]), targets[share]) * loss_factor(sync)).backward()
        sync.step()
        counts.append(len(sync.comm.meter.take_calls()))
    return counts


def plain_steps(model: nn.Module, optimizer: Optimizer) -> None:
    for inputs, targets in ALONE.batches()[:FEW]:
        mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


def clone(model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
    other, its_optimizer = ALONE.sgd()
    other.load_state_dict(model.state_dict())
    its_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return other, its_optimizer


def outcome(way: Way, attach: Attach) -> list[float] | str:
    try:
        return numbers(way, Script(attach, WORKERS))
    except InputError as error:
        return str(error)


def main(folder: str, strategies: list[str]) -> None:
    warnings.simplefilter("error")
    found: dict[str, object] = {}
    for strategy in strategies:
        attach = partial(gradsync.attach, strategy=strategy)
        found |= {f"{strategy} {name}": outcome(way, attach) for name, way in (WAYS | TOUCHED).items()}
        found |= {f"{strategy} refused {name}": outcome(way, attach) for name, way in REFUSED.items()}
        found[f"{strategy} attached again"] = attached_again(strategy)
    Path(folder, f"{world.current().rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
