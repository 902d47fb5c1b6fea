"""Which changes of a gradient between backward and the step are noticed; without processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from gradsync.errors import InputError
from gradsync.strategies.gradients.untouched import FIRST_STEPS, Untouched


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def backward(model: nn.Module) -> None:
    model.zero_grad()
    model(torch.ones(4, 3)).sum().backward()


def replace(model: nn.Module) -> None:
    model.weight.grad = model.weight.grad.clamp(-0.1, 0.1)


TOUCHES: dict[str, Callable[[nn.Module], object]] = {
    "in place": lambda model: model.weight.grad.clamp_(-0.1, 0.1),
    "replaced": replace,
    "replaced by its copy": lambda model: setattr(model.weight, "grad", model.weight.grad.clone()),
    "clamped through data": lambda model: model.weight.grad.data.clamp_(-0.1, 0.1),
    "scaled through data": lambda model: model.weight.grad.data.mul_(0.5),
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_a_changed_gradient_is_refused(model: nn.Module, touch: str):
    untouched = Untouched(list(model.named_parameters()))
    backward(model)
    TOUCHES[touch](model)
    with pytest.raises(InputError, match=r"parameter weight was changed between backward and sync\.step"):
        untouched.check("AllReduce")


def test_reading_and_what_backward_itself_does_are_not_changes(model: nn.Module):
    untouched = Untouched(list(model.named_parameters()))
    for fill in (1.0, float("nan"), float("inf"), 0.0):
        backward(model)
        model(torch.full((4, 3), fill)).sum().backward()  # a second micro-batch
        assert isinstance(model.weight.grad.norm(), Tensor)
        untouched.check("AllReduce")


def test_values_are_compared_in_the_first_steps_only(model: nn.Module):
    """They cost a pass over all gradients, and on a GPU a wait."""
    untouched = Untouched(list(model.named_parameters()))
    for _ in range(FIRST_STEPS):
        backward(model)
        untouched.check("AllReduce")
    backward(model)
    model.weight.grad.data.mul_(0.5)
    assert untouched.check("AllReduce") is None, "it is not noticed any more"


def test_no_gradient_is_kept_after_the_step(model: nn.Module):
    untouched = Untouched(list(model.named_parameters()))
    backward(model)
    untouched.check("AllReduce")
    assert not untouched._noted
    backward(model)
    untouched.remove()
    assert not untouched._noted
    backward(model)
    assert not untouched._noted
