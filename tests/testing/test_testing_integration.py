"""The kit on strategies that are right, and on strategies of which one thing is broken: it tells which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import gradsync
from gradsync.comm import Traffic, cost
from gradsync.study.checks import BITS, BYTES, DISTANCE, END, HOOKS, START, STATE
from gradsync.testing import Conformance, conforms
from gradsync.testing.ways import PLAIN, WAYS


class Right(gradsync.Strategy):
    """The mean of the gradients, and a number that is kept from step to step and has no effect."""

    def __init__(self, comm: gradsync.Comm, **others: Any) -> None:
        super().__init__(comm, **others)
        self.steps = 0

    def agree(self) -> None:
        self.steps += 1
        for gradient in self.gradients():
            self.comm.all_reduce(gradient)
            gradient.div_(self.comm.size)

    def gradient_traffic(self, count: int) -> Traffic:
        return cost.all_reduce(self.comm.size, count)

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]


class OtherStart(Right):
    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> torch.nn.Module:
        own = [parameter.detach().clone() for parameter in model.parameters()]
        forward = super().attach(model, optimizer)
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), own, strict=True):
                parameter.copy_(value)
        return forward


class RanksDiffer(Right):
    def update(self, scaler: Any = None) -> None:
        super().update(scaler)
        with torch.no_grad():
            for _, parameter in self._trainable:
                parameter.add_(self.comm.rank * 1e-13)


class WrongMean(Right):
    def agree(self) -> None:
        super().agree()
        for gradient in self.gradients():
            gradient.mul_(1.01)


class WrongBytes(Right):
    def gradient_traffic(self, count: int) -> Traffic:
        return cost.all_reduce(self.comm.size, count / 2)


class StateLost(Right):
    """Every fifth step is longer, by which its own count is needed; in one process, too."""

    exact = False

    def agree(self) -> None:
        super().agree()
        if self.steps % 5 == 0:
            for gradient in self.gradients():
                gradient.mul_(2)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class StateRefused(Right):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise KeyError("momentum")


class HookLeft(Right):
    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> torch.nn.Module:
        model.register_forward_hook(lambda *_: None)
        return super().attach(model, optimizer)


class MeanInUpdate(Right):
    """What is clipped after ``agree`` is then each worker's own gradient."""

    def agree(self) -> None:
        pass

    def update(self, scaler: Any = None) -> None:
        for _, parameter in self._trainable:
            if parameter.grad is not None:
                self.comm.all_reduce(parameter.grad)
                parameter.grad.div_(self.comm.size)
        super().update(scaler)


class AddsUpItself(Right):
    """After the second backward of a step, a gradient already has that of the first in it."""

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> torch.nn.Module:
        forward = super().attach(model, optimizer)
        self.sums: dict[torch.nn.Parameter, torch.Tensor] = {}
        for _, parameter in self._trainable:
            self.on_detach(parameter.register_post_accumulate_grad_hook(self.add).remove)
        return forward

    def add(self, parameter: torch.nn.Parameter) -> None:
        self.sums[parameter] = self.sums.get(parameter, 0) + parameter.grad

    def agree(self) -> None:
        for parameter, total in self.sums.items():
            parameter.grad.copy_(total)
        self.sums.clear()
        super().agree()


class UpdatesUnused(Right):
    """The optimizer sees a gradient of zero where in one process there is none: momentum and decay go on."""

    def update(self, scaler: Any = None) -> None:
        for _, parameter in self._trainable:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        super().update(scaler)


class NoScaler(Right):
    def update(self, scaler: Any = None) -> None:
        assert scaler is None
        super().update()


class EarlierContract(Right):
    """Trains by ``step`` alone, and not in any loop of a user."""

    def step(self) -> None:
        self.agree()
        self.update()

    def update(self) -> None:
        super().update()


class Dies(Right):
    def agree(self) -> None:
        raise RuntimeError("no agreement today")


BROKEN: dict[type[gradsync.Strategy], list[str]] = {
    OtherStart: [START],
    RanksDiffer: [BITS],
    WrongMean: [DISTANCE],
    WrongBytes: [BYTES],
    StateLost: [STATE],
    StateRefused: [STATE],
    HookLeft: [HOOKS],
    MeanInUpdate: [name for name in WAYS if "clipping" in name and "hook" not in name],
    AddsUpItself: ["gradient accumulation"],
    UpdatesUnused: ["parameters unused in some steps"],
    NoScaler: ["GradScaler", "GradScaler and clipping"],
    EarlierContract: [PLAIN],
    Dies: [END],
}


def documented() -> type[gradsync.Strategy]:
    """The example of docs/using/strategies.md, as a session would define it."""
    text = (Path(__file__).parents[2] / "docs" / "using" / "strategies.md").read_text()
    (code,) = re.findall(r"```python\n(import gradsync\n.*?)```", text, re.DOTALL)
    session: dict[str, Any] = {"__name__": "__main__"}
    exec(code, session)
    assert len(code.strip().splitlines()) <= 15 + 2  # and two empty lines after the imports
    return session["Half"]


@pytest.fixture(scope="module")
def found() -> Conformance:
    """All of them in one start of the processes; the one that fails comes last."""
    return conforms(Right, documented(), *BROKEN, workers=2, steps=6)


def rows_of(found: Conformance, title: str = "Conformance") -> list[Any]:
    return [row for item in found._sections if item.title == title for table in item.exhibits for row in table.rows]


def failed(found: Conformance, strategy: str) -> list[str]:
    return [what for name, what, holds, _ in rows_of(found) if name == strategy and holds == "no"]


@pytest.mark.parametrize("name", ["Right", "Half"])
def test_what_is_right_holds(found: Conformance, name: str):
    assert failed(found, name) == []


def test_every_training_loop_has_its_row_and_those_that_hold_share_one(found: Conformance):
    loops = {
        name: [row[1:] for row in rows_of(found, "Training loops") if row[0] == name] for name in ("Right", "Half")
    }
    assert [(what, holds) for what, holds, _ in loops["Right"]] == [(what, "yes") for what in WAYS]
    assert [(what, holds) for what, holds, _ in loops["Half"]] == [(what, "–") for what in WAYS]
    assert all("approximate by design" in text for *_, text in loops["Half"])
    shared = {name: row for name, what, *row in rows_of(found) if what == "training loops"}
    assert shared["Right"] == ["yes", f"{len(WAYS)} ways of writing them, as in one process"]
    assert shared["MeanInUpdate"] == ["yes", f"{len(WAYS) - 5} ways of writing them, as in one process"]
    assert shared["WrongMean"] == ["–", f"{len(WAYS)} ways of writing them, not judged"]
    told = [check.found for check in found.checks if check.holds is False]
    assert "raised TypeError: EarlierContract.update() takes 1 positional argument but 2 were given" in told
    assert any(text.startswith("raised AssertionError") for text in told)


def test_the_documented_strategy_halves_the_bytes_and_is_not_judged_by_its_distance(found: Conformance):
    rows = {(name, what): (holds, text) for name, what, holds, text in rows_of(found)}
    assert rows["Half", DISTANCE][0] == "–" and "approximate by design" in rows["Half", DISTANCE][1]
    assert "in closed form 15,700" in rows["Half", BYTES][1]  # 7,850 parameters of two bytes, by two workers


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_what_is_broken_is_told_by_its_row_alone(found: Conformance, kind: type[gradsync.Strategy]):
    assert failed(found, kind.__name__) == BROKEN[kind]
    assert f"{kind.__name__} does not do what a strategy must: {BROKEN[kind][0]}" in str(found)


def test_it_is_false_if_anything_does_not_hold_and_shows_its_tables(found: Conformance):
    assert not found
    assert set(found.failed) == {row for rows in BROKEN.values() for row in rows}
    assert "attach leaves 2 different models" in str(found)
    assert "detach leaves" in str(found) or "attaching twice adds more: the model: forward hooks" in str(found)
    assert "<table>" in found._repr_html_() and "no agreement today" in found._repr_html_()


@pytest.mark.parametrize("what", [dict, 3, Right(gradsync.comm.TorchComm())], ids=["class", "number", "object"])
def test_what_is_no_strategy_is_refused(what: Any):
    with pytest.raises(gradsync.InputError, match=r"a subclass of gradsync\.Strategy"):
        conforms(what)
