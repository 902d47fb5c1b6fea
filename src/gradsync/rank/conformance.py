"""What a strategy must do besides training, tried in the processes of a run, on models and attachments of its own.

1. Same start: every rank builds another model; once the strategy is attached, all hold the same.
2. Bytes: the sockets of this process are read before and after a few steps.
3. State: the steps go on, once as they were, and once with a new attachment that was given the state of the first.
4. Hooks: attaching twice installs what attaching once does, and detaching leaves none, and nothing that sends.
5. Training loops: the strategy in loops as users write them, each against one process.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gradsync.comm import Comm, TorchComm
from gradsync.data.loader import Loader
from gradsync.meter.network import Counter
from gradsync.meter.recorder import Call, Stopwatch
from gradsync.strategies import Strategy, wire_bytes
from gradsync.strategies.local import Local
from gradsync.train import checkpoint
from gradsync.train.trainer import Plan, train

STEPS = 3
LOOPS = "gradsync.testing.trying:tried"
"""By reference, as a user's code: like a script, it uses what lies above the rank (library/)."""

Build = Callable[[], tuple[nn.Module, Optimizer]]


class NoLog:
    """Training here leaves no rows in the record."""

    def write(self, kind: str, **values: Any) -> None:
        pass


class Listening(Stopwatch):
    """Counts the messages."""

    def __init__(self) -> None:
        self.calls = 0

    def start(self, operation: str, kind: str, sent: int, received: int, overlapped: bool = False) -> Call | None:
        self.calls += 1
        return None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One rank's part in it."""

    comm: Comm
    build: Build
    """A new model, unlike that of any other rank, and its optimizer."""

    make: Callable[[Comm], Strategy]
    """The strategy, not attached yet."""

    attach: Callable[[Strategy, nn.Module, Optimizer], object]
    loader: Loader
    plan: Plan
    counter: Counter | None
    loops: Callable[[], list[dict[str, Any]]]
    """Trains in every way in which loops are written."""

    meter: Listening = field(default_factory=Listening)

    def attached(self) -> Strategy:
        """A new strategy on a new model; its messages are counted, but not recorded."""
        own = self.comm.unmetered()
        own.meter = self.meter
        sync = self.make(own)
        self.attach(sync, *self.build())
        return sync

    def train(self, sync: Strategy, steps: int = STEPS) -> None:
        """The same steps each time, with the same random numbers."""
        torch.manual_seed(self.plan.rank)
        train(sync, self.loader, None, replace(self.plan, steps=steps, keep_going=True), NoLog())  # type: ignore[arg-type]

    def wait(self) -> None:
        """Until all ranks are here, with every message delivered."""
        self.comm.unmetered().all_reduce(torch.zeros(1, device=self.comm.carrier(self.plan.device)))


def tried(trial: Trial) -> dict[str, Any]:
    """The row of this rank. What it means is worked out where all ranks are known (study/checks.py)."""
    sync = trial.attached()
    start = fingerprint(sync.model)
    found = {"start_sha256": start, **measured(trial, sync), **resumed(trial, sync)}
    sync.detach()
    return {**found, **hooks(trial), "loops": trial.loops()}


def fingerprint(model: nn.Module) -> str:
    return checkpoint.fingerprint([*model.parameters(), *model.buffers()])


def measured(trial: Trial, sync: Strategy) -> dict[str, Any]:
    """Bytes of this rank per step: as the kernel counted them, and in closed form."""
    closed = wire_bytes(sync)
    if trial.counter is None or closed is None:
        trial.train(sync)
        return {"wire_bytes": None, "closed_form": [closed.sent, closed.received] if closed else None}
    trial.wait()
    before = trial.counter.read()
    trial.train(sync)
    trial.wait()
    after = trial.counter.read()
    sent, received = after.sent - before.sent, after.received - before.received
    return {"wire_bytes": [sent / STEPS, received / STEPS], "closed_form": [closed.sent, closed.received]}


def resumed(trial: Trial, sync: Strategy) -> dict[str, Any]:
    """How far the model of a resumed training is from that of one without a break, relative to its largest number."""
    before = [copy.deepcopy(item.state_dict()) for item in (sync.model, sync.optimizer, sync)]
    trial.train(sync)
    other = trial.attached()
    why = ""
    try:
        other.model.load_state_dict(before[0])
        other.optimizer.load_state_dict(before[1])
        other.load_state_dict(before[2])
    except Exception as error:
        why = f"load_state_dict raised {type(error).__name__}: {error}"
    trial.train(other)
    apart = max(map(distance, other.model.parameters(), sync.model.parameters()))
    other.detach()
    return {"resumed_distance": apart, "resumed_error": why}


def distance(one: Tensor, other: Tensor) -> float:
    apart = (one.double() - other.double()).abs().max()
    return float(apart / other.double().abs().max().clamp_min(1e-300)) if torch.isfinite(apart) else math.inf


def hooks(trial: Trial) -> dict[str, Any]:
    """What attaching a second time adds, and what is left after detaching; and the messages of a step after it."""
    model, optimizer = trial.build()
    bare = installed(model, optimizer)
    sync = trial.make(trial.comm.unmetered())
    sync.comm.meter = trial.meter
    trial.attach(sync, model, optimizer)
    once = installed(model, optimizer)
    trial.attach(sync, model, optimizer)
    twice = installed(model, optimizer)
    trial.train(sync, 1)
    sync.detach()
    left = more(installed(model, optimizer), bare)
    alone = Local(TorchComm())
    alone.attach(model, optimizer)
    before = trial.meter.calls
    trial.train(alone, 1)
    alone.detach()
    return {"hooks_stacked": more(twice, once), "hooks_left": left, "messages_after": trial.meter.calls - before}


def more(now: Mapping[str, int], before: Mapping[str, int]) -> list[str]:
    return sorted(name for name, count in now.items() if count > before.get(name, 0))


def installed(model: nn.Module, optimizer: Optimizer) -> dict[str, int]:
    """Place -> how many hooks are there; and everything that takes the place of a method or of a layer."""
    return dict(count for count in places(model, optimizer) if count[1])


def places(model: nn.Module, optimizer: Optimizer) -> Iterator[tuple[str, int]]:
    for name, part in [
        *((name or "the model", part) for name, part in model.named_modules()),
        ("optimizer", optimizer),
    ]:
        for attribute, value in vars(part).items():
            if attribute.endswith("hooks") and isinstance(value, Mapping):
                yield f"{name}: {attribute.strip('_').replace('_', ' ')}", len(value)
            elif callable(getattr(type(part), attribute, None)):
                yield f"{name}: its own {attribute}", 1
        yield f"{name}: {type(part).__name__}", 1
    for name, parameter in model.named_parameters():
        for attribute in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            value = getattr(parameter, attribute, None)
            yield f"{name}: {attribute.strip('_').replace('_', ' ')}", len(value or ())
