"""Gradients that bucketed has sent cannot be touched until the step; without processes."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm

from gradsync.comm import TorchComm
from gradsync.errors import InputError
from gradsync.strategies.bucketed import Bucketed
from gradsync.strategies.gradients.on_its_way import OnItsWay


def arrived(block: Tensor) -> Future[Tensor]:
    future: Future[Tensor] = Future()
    future.set_result(block)
    return future


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bucketed]:
    """The first of two workers; the other one's gradients are zero."""
    monkeypatch.setattr(TorchComm, "broadcast", lambda *_, **__: None)
    monkeypatch.setattr(TorchComm, "all_reduce_later", lambda _, block: arrived(block))

    def attach(model: nn.Module, size: int = 2) -> Bucketed:
        sync = Bucketed(TorchComm(0, size))
        sync.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        return sync

    return attach


@pytest.fixture
def sync(attached: Callable[..., Bucketed]) -> Bucketed:
    """After a backward, before the step."""
    torch.manual_seed(0)
    sync = attached(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)))
    sync(torch.ones(1, 3)).sum().backward()
    return sync


def scaled_step(sync: Bucketed) -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    scaler.step(sync.optimizer)


TOUCHES: dict[str, Callable[[Bucketed], object]] = {
    "clip_grad_norm_": lambda sync: clip_grad_norm_(sync.model.parameters(), 1.0),
    "clip_grad_norm_ of all at once": lambda sync: clip_grad_norm_(sync.model.parameters(), 1.0, foreach=True),
    "clip_grad_value_": lambda sync: clip_grad_value_(sync.model.parameters(), 1.0),
    "get_total_norm": lambda sync: get_total_norm([parameter.grad for parameter in sync.model.parameters()]),
    "norm": lambda sync: sync.model[0].weight.grad.norm(),
    "mul_": lambda sync: sync.model[0].weight.grad.mul_(0.5),
    "item assignment": lambda sync: sync.model[0].weight.grad.__setitem__(0, 1.0),
    "print": lambda sync: print(sync.model[0].weight.grad),
    "item": lambda sync: sync.model[1].bias.grad.item(),
    "tolist": lambda sync: sync.model[0].weight.grad.tolist(),
    "numpy": lambda sync: sync.model[0].weight.grad.numpy(),
    "the optimizer's step": lambda sync: sync.optimizer.step(),
    "the step of all at once": lambda sync: torch.optim.SGD(sync.model.parameters(), foreach=True).step(),
    "the fused step": lambda sync: torch.optim.Adam(sync.model.parameters(), fused=True).step(),
    "GradScaler": scaled_step,
    "zero_grad in place": lambda sync: sync.optimizer.zero_grad(set_to_none=False),
    "a second backward": lambda sync: sync(torch.ones(1, 3)).sum().backward(),
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_whatever_touches_a_gradient_before_the_step_raises_a_sentence(sync: Bucketed, touch: str):
    with pytest.raises(
        InputError, match=r"in flight .* Call sync\.step\(\) after each backward.* HINT: .*sync\.agree"
    ):
        TOUCHES[touch](sync)


def test_gradients_cleared_or_replaced_before_the_step_are_noticed(sync: Bucketed):
    weight = sync.model[0].weight
    weight.grad = torch.zeros_like(weight)
    with pytest.raises(InputError, match=r"parameter 0\.weight was replaced between backward and sync\.step"):
        sync.step()
    sync.optimizer.zero_grad()
    with pytest.raises(InputError, match=r"parameter 0\.weight was cleared \(zero_grad\) between backward"):
        sync.step()
    with pytest.raises(InputError, match="sent these gradients already"):
        sync(torch.ones(1, 3)).sum().backward()


def test_the_model_can_be_copied_and_saved_meanwhile(sync: Bucketed):
    assert copy.deepcopy(sync.model).state_dict().keys() == sync.model.state_dict().keys()


def test_in_the_step_gradients_are_ordinary_again_and_then_cleared(sync: Bucketed):
    """Where the optimizer's hooks run: half of this worker's, as the other one's are zero."""
    alone = copy.deepcopy(sync.model)
    alone(torch.ones(1, 3)).sum().backward()
    seen: list[Tensor] = []
    sync.optimizer.register_step_pre_hook(
        lambda *_: seen.extend(parameter.grad.clone() for parameter in sync.model.parameters())
    )
    for _ in range(2):
        sync.step()
        assert all(parameter.grad is None for parameter in sync.model.parameters())
        assert all(type(gradient) is Tensor for gradient in seen)
        sync(torch.ones(1, 3)).sum().backward()
    for gradient, whole in zip(seen, alone.parameters(), strict=False):
        assert torch.equal(gradient, whole.grad / 2)


def test_one_process_reads_and_clips_as_it_likes(attached: Callable[..., Bucketed]):
    sync = attached(nn.Linear(2, 1), size=1)
    sync(torch.ones(1, 2)).sum().backward()
    clip_grad_norm_(sync.model.parameters(), 0.5)
    assert get_total_norm([parameter.grad for parameter in sync.model.parameters()]).item() == pytest.approx(0.5)


def test_pieces_of_a_batch_add_up_and_are_sent_once(attached: Callable[..., Bucketed]):
    """Also the gradient of a parameter that the last piece did not use."""
    model = nn.ModuleDict({"always": nn.Linear(2, 1, bias=False), "at first": nn.Linear(2, 1, bias=False)})
    sync = attached(model)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    inputs = torch.ones(1, 2)
    with sync.accumulating():
        (model["always"](inputs) + model["at first"](inputs)).sum().backward()
    assert model["always"].weight.grad.tolist() == [[1.0, 1.0]], "nothing was sent: it can be read"
    model["always"](inputs).sum().backward()
    sync.step()
    moved = {name: (before[name] - parameter).tolist() for name, parameter in model.named_parameters()}
    assert moved["always.weight"] == [[pytest.approx(1.0)] * 2]  # two pieces, and half of them as the mean of two
    assert moved["at first.weight"] == [[pytest.approx(0.5)] * 2]


def test_an_unused_parameter_is_still_told_from_a_cleared_one(attached: Callable[..., Bucketed]):
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2)})
    sync = attached(model)
    model["used"](torch.ones(1, 2)).sum().backward()
    with pytest.raises(ValueError, match=r"parameter idle\.weight got no gradient"):
        sync.step()


@given(
    st.lists(st.integers(1, 5), max_size=4),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
    st.sampled_from(["cpu", "meta"]),
)
def test_a_placeholder_is_taken_for_the_gradient_of_its_parameter(shape: list[int], dtype: torch.dtype, device: str):
    """torch lets only a tensor of the same form be a gradient."""
    layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    parameter = nn.Parameter(torch.zeros(shape, dtype=dtype, device=device).to(memory_format=layout))
    placeholder = OnItsWay(parameter)
    parameter.grad = placeholder
    assert parameter.grad is placeholder


def test_layouts_and_number_formats_beside_each_other(attached: Callable[..., Bucketed]):
    model = nn.ModuleList([nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last), nn.Linear(4, 2).double()])
    sync = attached(model)
    images = torch.randn(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    model[1](model[0](images).flatten(1).double()).sum().backward()
    assert all(isinstance(parameter.grad, OnItsWay) for parameter in model.parameters())
    before = [parameter.detach().clone() for parameter in model.parameters()]
    sync.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
