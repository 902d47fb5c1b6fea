from __future__ import annotations

import pytest

from gradsync.errors import InputError
from gradsync.study.compare import CompareConfig, run_configs

OPTIONS = {"local": set(), "all-reduce": set(), "ddp": {"bucket-mb"}}


def test_local_runs_alone_and_all_share_the_global_batch():
    config = CompareConfig(strategies=("local", "ddp"), workers=4, batch_per_worker=8, seed=3)
    local, ddp = (item.resolved() for item in run_configs(config, OPTIONS))
    assert (local.workers, ddp.workers) == (1, 4)
    assert local.batch_size == ddp.batch_size == 32
    assert local.seed == ddp.seed == 3


def test_options_go_to_the_strategies_that_have_them():
    config = CompareConfig(strategies=("all-reduce", "ddp"), options={"bucket-mb": "5"})
    assert [item.options for item in run_configs(config, OPTIONS)] == [{}, {"bucket-mb": "5"}]


def test_an_option_none_has_and_an_empty_list_are_refused():
    with pytest.raises(InputError, match="none of local has an option"):
        run_configs(CompareConfig(strategies=("local",), options={"bucket-mb": "5"}), {"local": set()})
    with pytest.raises(InputError, match="name at least one"):
        CompareConfig(strategies=())


def test_the_local_run_has_nobody_to_inject_a_delay_into():
    config = CompareConfig(strategies=("local", "ddp"), inject="rank=1,where=data,ms=5")
    assert [item.inject for item in run_configs(config, OPTIONS)] == [None, "rank=1,where=data,ms=5"]


def test_several_numbers_of_workers_each_with_its_own_global_batch():
    config = CompareConfig(strategies=("local", "ps-sync"), workers=(1, 3), batch_per_worker=10, servers=2)
    found = [item.resolved() for item in run_configs(config, {"local": set(), "ps-sync": set()})]
    assert [(item.strategy, item.workers, item.batch_size, item.servers) for item in found] == [
        ("local", 1, 10, 0),
        ("ps-sync", 1, 10, 2),
        ("ps-sync", 3, 30, 2),
    ]
    with pytest.raises(InputError, match="each must be from 1 to 10,000"):
        CompareConfig(workers=(0, 2))
