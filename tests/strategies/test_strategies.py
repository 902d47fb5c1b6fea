"""Strategies without processes: options, the world of one, what is refused."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

import gradsync
from gradsync.comm import TorchComm, flat
from gradsync.errors import InputError
from gradsync.strategies import STRATEGIES, option_types, parse_options


@pytest.fixture
def no_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*_: object, **__: object) -> None:
        raise AssertionError("a world of one made a collective call")

    for name in (
        "all_reduce",
        "broadcast",
        "gather",
        "scatter",
        "init_process_group",
        "barrier",
        "new_group",
    ):
        monkeypatch.setattr(dist, name, called)


@pytest.mark.usefixtures("no_collectives")
@pytest.mark.parametrize("buffers", ["local", "broadcast", "average"])
@pytest.mark.parametrize("strategy", [name for name, kind in STRATEGIES.items() if not kind.has_servers])
def test_one_process_makes_no_collective_call(strategy: str, buffers: str):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    before = [parameter.clone() for parameter in model.parameters()]
    sync = gradsync.attach(model, torch.optim.SGD(model.parameters(), 0.1), strategy, buffers=buffers, sync_bn=True)
    sync(torch.randn(5, 3)).square().sum().backward()
    sync.step()
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not sync.replicas_differ


def test_options_come_from_the_constructor_and_are_read_by_type():
    assert option_types("ddp") == {"bucket-mb": float}
    assert parse_options("ddp", {"bucket-mb": "5"}) == {"bucket_mb": 5.0}
    assert parse_options("ddp", {"bucket_mb": 5}) == {"bucket_mb": 5.0}


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("ddp", {"bucket": "5"}, r"unknown option of ddp 'bucket'\. Did you mean bucket-mb\?"),
        ("local", {"bucket-mb": "5"}, "There are none"),
        ("ddp", {"bucket-mb": "big"}, "bucket-mb is big: it must be a number"),
        ("ddp", {"bucket-mb": True}, "must be a number"),
    ],
)
def test_wrong_options_are_refused(strategy: str, options: dict, message: str):
    with pytest.raises(InputError, match=message):
        parse_options(strategy, options)


def test_unknown_strategy_shows_the_nearest():
    with pytest.raises(InputError, match="Did you mean all-reduce"):
        parse_options("allreduce", {})


def test_an_unused_parameter_is_refused_by_name_instead_of_hanging():
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2)})
    sync = gradsync.attach(model, torch.optim.SGD(model.parameters(), 0.1), "all-reduce")
    model["used"](torch.ones(1, 2)).sum().backward()
    with pytest.raises(ValueError, match=r"parameter idle\.weight got no gradient.*HINT"):
        sync.step()


def test_strategies_without_servers_say_so():
    with pytest.raises(TypeError, match="no server ranks"):
        STRATEGIES["ddp"](TorchComm()).serve()


def test_flat_is_a_view_of_the_memory_whatever_the_strides():
    tensor = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    view = flat(tensor)
    assert view.shape == (120,)
    view.zero_()
    assert tensor.abs().sum() == 0
    with pytest.raises(AssertionError, match="dense"):
        flat(torch.randn(4, 6)[:, ::2])
