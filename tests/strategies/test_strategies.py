"""Strategies without processes: what they declare, the world of one, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

import gradsync
from gradsync.comm import TorchComm, flat
from gradsync.config.facts import Facts
from gradsync.errors import InputError
from gradsync.strategies import (
    STRATEGIES,
    ServerStrategy,
    Strategy,
    construct,
    facts_of,
    find_strategy,
    loss_factor,
)
from gradsync.strategies.ddp import DDP
from gradsync.strategies.options import option_types


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
    assert not sync.strategy.replicas_differ


def test_unknown_strategy_shows_the_nearest():
    with pytest.raises(InputError, match="Did you mean all-reduce"):
        find_strategy("allreduce")


def test_an_unused_parameter_is_refused_by_name_instead_of_hanging():
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2)})
    sync = gradsync.attach(model, torch.optim.SGD(model.parameters(), 0.1), "all-reduce")
    model["used"](torch.ones(1, 2)).sum().backward()
    with pytest.raises(ValueError, match=r"parameter idle\.weight got no gradient.*HINT"):
        sync.step()


def test_the_classes_declare_what_they_are():
    def with_fact(fact: str) -> set[str]:
        return {name for name in STRATEGIES if getattr(facts_of(name, workers=2), fact)}

    assert with_fact("has_servers") == with_fact("asynchronous") | {"ps-sync"} == {"ps-sync", "ps-async"}
    assert with_fact("in_one_process") == {"local", "data-parallel"}
    assert set(STRATEGIES) - with_fact("exact") == {"ps-async"}
    assert {name for name, kind in STRATEGIES.items() if issubclass(kind, ServerStrategy)} == with_fact("has_servers")
    assert facts_of("ps-async", workers=1).exact, "alone, no gradient is stale"
    assert facts_of("ddp").option_names == ("bucket-mb",)


@pytest.mark.parametrize(
    ("name", "options", "spare"),
    [
        ("all-reduce", {}, 0),
        ("ps-sync", {}, 0),
        ("ps-sync", {"aggregate": "3"}, 1),
        ("ps-sync", {"aggregate": "9"}, 0),
        ("ps-async", {}, 3),
    ],
)
def test_how_many_of_four_workers_a_run_can_lose(name: str, options: dict, spare: int):
    assert facts_of(name, options, workers=4).spare_workers == spare


def test_facts_of_a_strategy_of_the_users(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import gradsync\nfrom gradsync.strategies.server.ps_async import PsAsync\n"
        "class Rough(gradsync.Strategy):\n    exact = False\n"
        "    def __init__(self, comm, *, buffers=None, top_k: float = 0.1): super().__init__(comm, buffers=buffers)\n"
        "class Served(PsAsync): pass\n"
    )
    assert facts_of(f"{file}:Rough", workers=1) == Facts(exact=False, option_names=("top-k",))
    served = facts_of(f"{file}:Served", {"max-staleness": "2"}, workers=3)
    assert (served.has_servers, served.asynchronous, served.spare_workers) == (True, True, 2)
    file.write_text("import gradsync\nclass Odd(gradsync.Strategy):\n    has_servers = True\n")
    with pytest.raises(InputError, match=r"Odd declares servers: it must be a subclass of .*ServerStrategy"):
        facts_of(f"{file}:Odd")


def test_the_contract_is_small():
    """What an author declares, overrides or calls, and what a training loop calls; the rest is of the frame."""
    members = {name for name in vars(Strategy(TorchComm())) | vars(Strategy) if not name.startswith("_")}
    facts = {"exact", "has_servers", "in_one_process", "over_mpi", "after_backward", "default_buffers"}
    overridden = {"attach", "agree", "update", "accumulating", "state_dict", "load_state_dict"}
    about = {"gradient_traffic", "replicas_differ", "comm", "buffers"}  # model, optimizer, forward: once attached
    assert members == facts | overridden | about | {"gradients", "on_detach", "step", "detach"}


def test_who_multiplies_the_loss_is_asked_by_the_loop_and_else_ddp_averages(monkeypatch: pytest.MonkeyPatch):
    assert loss_factor(construct("all-reduce", TorchComm(size=2), None, {})) == 1.0
    ddp = construct("ddp", TorchComm(size=4), None, {})
    assert isinstance(ddp, DDP) and loss_factor(ddp) == 1.0, "without a hook it averages by itself"
    monkeypatch.setattr(ddp, "_hooked", True)
    assert loss_factor(ddp) == 0.25
    monkeypatch.setattr(ddp.comm, "size", 3)
    assert loss_factor(ddp) == 1.0, "a third would round differently"


def test_only_ddp_is_told_before_it_is_attached_what_becomes_of_unused_parameters():
    assert option_types(DDP).keys() == {"bucket-mb"}
    assert construct("ddp", TorchComm(), None, {}, unused="zero")._unused == "zero"  # type: ignore[attr-defined]
    assert construct("all-reduce", TorchComm(), None, {}, unused="zero")


def test_only_strategies_with_servers_have_what_servers_need():
    for member in (
        "asynchronous",
        "roles",
        "is_worker",
        "finished",
        "begin",
        "finish",
        "serve",
        "step_facts",
        "spare_workers",
    ):
        assert not hasattr(STRATEGIES["ddp"](TorchComm()), member)
        assert hasattr(STRATEGIES["ps-sync"](TorchComm()), member)
    with pytest.raises(TypeError, match="abstract"):
        ServerStrategy(TorchComm())  # type: ignore[abstract]


def test_the_contract_is_small_and_written_down():
    """docs/using/strategies.md has a row for each."""
    rows = (Path(__file__).parents[2] / "docs" / "using" / "strategies.md").read_text()
    members = {name for name in vars(Strategy) if not name.startswith("_")}
    assert len(members) <= 20
    assert not {name for name in members if f"`{name}" not in rows}


def test_a_state_is_refused_by_a_strategy_that_keeps_none():
    sync = STRATEGIES["all-reduce"](TorchComm())
    sync.load_state_dict(sync.state_dict())
    with pytest.raises(InputError, match="AllReduce keeps no state between steps, but was given residual"):
        sync.load_state_dict({"residual": 1})


class Wrapping(Strategy):
    """Returns what is to be called, and tells nobody else."""

    def attach(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> nn.Module:
        return nn.Sequential(super().attach(model, optimizer), nn.Flatten(0))


def test_what_attach_returns_is_what_is_called():
    model = nn.Linear(2, 3)
    sync = gradsync.attach(model, torch.optim.SGD(model.parameters(), 0.1), Wrapping)
    assert sync(torch.ones(4, 2)).shape == (12,)
    sync.detach()
    assert sync(torch.ones(4, 2)).shape == (4, 3)


def test_flat_is_a_view_of_the_memory_whatever_the_strides():
    tensor = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    view = flat(tensor)
    assert view.shape == (120,)
    view.zero_()
    assert tensor.abs().sum() == 0
    with pytest.raises(AssertionError, match="dense"):
        flat(torch.randn(4, 6)[:, ::2])
