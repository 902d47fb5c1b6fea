"""Options of strategies: keyword arguments of the constructor, read from text."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from gradsync import Strategy
from gradsync.comm import TorchComm
from gradsync.errors import InputError
from gradsync.strategies import STRATEGIES, Roles, construct
from gradsync.strategies.bucketed import Bucketed
from gradsync.strategies.options import keywords, option_types, parse_options


class Passing(Bucketed):
    """Hands on what it does not know."""

    def __init__(self, comm: Any, *, often: int = 1, **others: Any) -> None:
        super().__init__(comm, **others)
        self.often = often


def test_options_come_from_the_constructor_and_are_read_by_type():
    ddp = STRATEGIES["ddp"]
    assert option_types(ddp) == {"bucket-mb": float}
    assert parse_options("ddp", ddp, {"bucket-mb": "5"}) == {"bucket_mb": 5.0}
    assert parse_options("ddp", ddp, {"bucket_mb": 5}) == {"bucket_mb": 5.0}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all-reduce", {}),
        ("data-parallel", {}),
        ("ps-sync", {"aggregate": int, "combine": Literal["mean", "sum"]}),
        ("ps-async", {"max-staleness": int, "lr-by-staleness": bool}),
    ],
)
def test_what_the_settings_of_a_run_fill_in_is_no_option(name: str, expected: dict):
    assert option_types(STRATEGIES[name]) == expected


def test_options_handed_on_to_the_constructor_above_are_options_too():
    assert option_types(Passing) == {"bucket-mb": float, "often": int}
    assert list(keywords(Passing)) == ["buffers", "bucket_mb", "often"]
    sync = construct(Passing, TorchComm(), "average", {"bucket-mb": "3", "often": "2"})
    assert isinstance(sync, Passing)
    assert (sync.bucket_mb, sync.often, sync.buffers) == (3.0, 2, "average")


def test_roles_and_replicas_go_to_the_constructors_that_take_them():
    roles = Roles(workers=3, servers=(3,), updates=7)
    assert construct("ps-sync", TorchComm(0, 4), None, {}, roles).roles == roles
    assert construct("data-parallel", TorchComm(), None, {}, roles).replicas == 3
    assert construct("ddp", TorchComm(), None, {}, roles).comm.size == 1


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("ddp", {"bucket": "5"}, r"unknown option of ddp 'bucket'\. Did you mean bucket-mb\?"),
        ("local", {"bucket-mb": "5"}, "None exist"),
        ("ddp", {"bucket-mb": "big"}, "bucket-mb is big: it must be a number"),
        ("ddp", {"bucket-mb": True}, "must be a number"),
        ("ps-sync", {"combine": "max"}, "combine is max: it must be one of mean, sum"),
        ("ps-sync", {"roles": "1"}, "unknown option of ps-sync 'roles'"),
        ("ps-async", {"lr-by-staleness": "1"}, "must be true or false"),
        ("data-parallel", {"replicas": "3"}, "unknown option of data-parallel 'replicas'"),
    ],
)
def test_wrong_options_are_refused(strategy: str, options: dict, message: str):
    with pytest.raises(InputError, match=message):
        parse_options(strategy, STRATEGIES[strategy], options)


def test_a_class_that_is_no_strategy_is_refused():
    with pytest.raises(InputError, match=r"int is not a strategy: .* subclass of gradsync\.Strategy"):
        construct(int, TorchComm(), None, {})  # type: ignore[arg-type]
    assert isinstance(construct(Strategy, TorchComm(), None, {}), Strategy)
