from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.config import Injection, RunConfig, load, parse_injection, read_file, run
from gradsync.errors import InputError


def test_default_run_is_local_with_one_worker_and_all_cores():
    config = RunConfig().resolved()
    assert (config.strategy, config.workers, config.epochs) == ("local", 1, 1)
    assert config.threads == run.available_cores()


def test_several_workers_default_to_ddp_and_a_strategy_to_two_workers():
    assert RunConfig(workers=4).resolved().strategy == "ddp"
    assert RunConfig(strategy="all-reduce").resolved().workers == 2


def test_threads_are_at_least_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "available_cores", lambda: 2)
    assert RunConfig(workers=2).resolved().threads == 1
    assert RunConfig(workers=8).resolved().threads == 1


def test_learning_rate_and_decay_follow_the_optimizer():
    assert RunConfig(optimizer="adam").resolved().lr == 0.001
    assert RunConfig(optimizer="adam", lr=0.0).resolved().lr == 0.0
    assert RunConfig(optimizer="sgd").resolved().weight_decay == 1e-4


@given(workers=st.integers(1, 64), share=st.integers(1, 512))
def test_batch_per_worker_always_splits(workers: int, share: int):
    strategy = "local" if workers == 1 else "ddp"
    config = RunConfig(strategy=strategy, workers=workers, batch_per_worker=share).resolved()
    assert config.batch_size == workers * share


@given(workers=st.integers(2, 64), batch=st.integers(1, 4096))
def test_a_batch_is_split_evenly_or_refused_with_sizes_that_work(workers: int, batch: int):
    config = RunConfig(strategy="ddp", workers=workers, batch_size=batch)
    if batch % workers == 0:
        assert config.resolved().batch_size == batch
        return
    with pytest.raises(InputError, match="does not split evenly") as caught:
        config.resolved()
    offered = [int(word.strip(",")) for word in str(caught.value).split() if word.strip(",").isdigit()][2:]
    assert offered
    assert all(size > 0 and size % workers == 0 for size in offered)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "--workers is 0: it must be from 1 to 10,000"),
        ({"workers": -1}, "--workers is -1"),
        ({"batch_size": 8, "batch_per_worker": 4}, "both --batch-size and --batch-per-worker"),
        ({"epochs": 1, "steps": 4}, "both --epochs and --steps"),
        ({"lr": float("nan")}, "--lr is nan"),
        ({"workers": "two"}, "--workers is 'two': it must be a whole number"),
        ({"workers": True}, "--workers is True"),
        ({"precision": "fp8"}, "one of fp64, fp32, bf16"),
        ({"options": 3}, "--options is 3: it must be a table"),
        ({"inject": "rank=1"}, "must read rank=R,where=W,ms=T"),
        ({"inject": "rank=1,where=disk,ms=3"}, "data, forward, backward, link"),
        ({"inject": "rank=-1,where=data,ms=3"}, "a rank from 0"),
        ({"inject": "rank=1,where=data,ms=inf"}, "milliseconds from 0"),
        ({"inject": "rank=1,where=data,ms=3,hour=1"}, "it must read"),
    ],
)
def test_bad_values_are_refused_with_the_flag_and_what_is_allowed(settings: dict, message: str):
    with pytest.raises(InputError, match=message):
        RunConfig(**settings)


def test_local_with_workers_is_refused_with_a_hint():
    with pytest.raises(InputError, match="HINT"):
        RunConfig(strategy="local", workers=2).resolved()


def test_config_json_reads_back_as_the_same_config(tmp_path: Path):
    config = RunConfig(model="logistic", workers=2, options={"bucket-mb": "5"}, lr=0.5)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_dict()))
    assert load(path) == config


def test_broken_toml_names_file_and_line(tmp_path: Path):
    path = tmp_path / "run.toml"
    path.write_text('model = "vgg11"\nworkers = \n')
    with pytest.raises(InputError, match=r"run\.toml is not valid TOML.*line 2"):
        read_file(path, RunConfig)


def test_unknown_setting_in_a_file_shows_the_nearest(tmp_path: Path):
    path = tmp_path / "run.toml"
    path.write_text("batch-sise = 3\n")
    with pytest.raises(InputError, match="Did you mean batch_size"):
        read_file(path, RunConfig)


def test_json_that_is_no_table_is_refused(tmp_path: Path):
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(InputError, match="must hold a table of settings"):
        read_file(tmp_path / "list.json", RunConfig)


def test_missing_config_file_is_a_sentence(tmp_path: Path):
    with pytest.raises(InputError, match="cannot read the config file"):
        read_file(tmp_path / "none.toml", RunConfig)


def test_an_injection_hits_one_rank_at_one_place():
    found = parse_injection("ms=200, rank=2,where=forward")
    assert found == Injection(rank=2, where="forward", seconds=0.2)
    assert found.delay(2, "forward") == 0.2
    assert found.delay(1, "forward") == found.delay(2, "data") == 0.0
    assert parse_injection(None) is None


def test_an_injection_must_name_a_rank_there_is_and_a_link_somebody_uses():
    with pytest.raises(InputError, match="there are ranks 0 to 1"):
        RunConfig(strategy="ddp", workers=2, inject="rank=2,where=data,ms=1").resolved()
    with pytest.raises(InputError, match="there is only rank 0"):
        RunConfig(strategy="local", workers=1, inject="rank=2,where=data,ms=1").resolved()
    with pytest.raises(InputError, match="one worker sends nothing"):
        RunConfig(strategy="local", inject="rank=0,where=link,ms=1").resolved()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "ddp", "servers": 1}, "--servers is for ps-sync and ps-async: ddp has none"),
        ({"strategy": "ps-sync", "servers": 0}, "ps-sync needs at least one"),
        ({"strategy": "ps-sync", "servers": 3, "server_placement": "shared"}, "3 servers cannot share"),
        ({"strategy": "ps-async", "sync_bn": True}, "workers talk to servers only"),
        ({"strategy": "ps-async", "buffers": "average"}, "workers talk to servers only"),
        ({"strategy": "ps-async", "start": "own"}, "workers talk to servers only"),
        ({"strategy": "ps-sync", "transport": "nccl"}, "use gloo"),
        ({"strategy": "data-parallel", "sync_bn": True}, "data-parallel has no messages between replicas"),
        ({"strategy": "data-parallel", "inject": "rank=1,where=data,ms=1"}, "there is only rank 0"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict, message: str):
    with pytest.raises(InputError, match=message):
        RunConfig(workers=2, **settings).resolved()


def test_who_trains_and_who_serves():
    own = RunConfig(strategy="ps-sync", workers=3, servers=2, batch_size=6).resolved()
    assert (own.trainers, own.server_ranks, own.processes, own.spare_workers) == (3, (3, 4), 5, 0)
    shared = RunConfig(strategy="ps-async", workers=3, batch_size=6, server_placement="shared").resolved()
    assert (shared.trainers, shared.server_ranks, shared.processes, shared.spare_workers) == (3, (0,), 3, 2)
    backed = RunConfig(strategy="ps-sync", workers=3, batch_size=6, options={"aggregate": 2}).resolved()
    assert backed.spare_workers == 1
    replicas = RunConfig(strategy="data-parallel", workers=4).resolved()
    assert (replicas.trainers, replicas.processes) == (1, 1)


def test_resolving_twice_changes_nothing():
    for config in (
        RunConfig(workers=4, batch_per_worker=512),
        RunConfig(strategy="ps-sync"),
        RunConfig(launcher="mpi"),
    ):
        assert config.resolved().resolved() == config.resolved()
