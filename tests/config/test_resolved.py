"""What settings come to, and what is refused because it does not go together."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.config import Facts, RunConfig, resolve, strategy_name, suited, worker_count
from gradsync.config import resolved as module
from gradsync.config.resolved import from_dict
from gradsync.errors import InputError
from made_up import resolved


def test_default_run_is_local_with_one_worker_and_all_cores():
    config = resolved(RunConfig())
    assert (config.strategy, config.workers, config.epochs) == ("local", 1, 1)
    assert config.threads == module.available_cores()


def test_several_workers_default_to_ddp_and_a_strategy_to_two_workers():
    assert resolved(RunConfig(workers=4)).strategy == "ddp"
    assert resolved(RunConfig(strategy="all-reduce")).workers == 2


def test_threads_are_at_least_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "available_cores", lambda: 2)
    assert resolved(RunConfig(workers=2)).threads == 1
    assert resolved(RunConfig(workers=8)).threads == 1


def test_learning_rate_and_decay_follow_the_optimizer():
    assert resolved(RunConfig(optimizer="adam")).lr == 0.001
    assert resolved(RunConfig(optimizer="adam", lr=0.0)).lr == 0.0
    assert resolved(RunConfig(optimizer="sgd")).weight_decay == 1e-4


@given(workers=st.integers(1, 64), share=st.integers(1, 512))
def test_batch_per_worker_always_splits(workers: int, share: int):
    strategy = "local" if workers == 1 else "ddp"
    config = resolved(RunConfig(strategy=strategy, workers=workers, batch_per_worker=share))
    assert config.batch_size == workers * share


@given(workers=st.integers(2, 64), batch=st.integers(1, 4096))
def test_a_batch_is_split_evenly_or_refused_with_sizes_that_work(workers: int, batch: int):
    config = RunConfig(strategy="ddp", workers=workers, batch_size=batch)
    if batch % workers == 0:
        assert resolved(config).batch_size == batch
        return
    with pytest.raises(InputError, match="does not split evenly") as caught:
        resolved(config)
    offered = [int(word.strip(",")) for word in str(caught.value).split() if word.strip(",").isdigit()][2:]
    assert offered
    assert all(size > 0 and size % workers == 0 for size in offered)


def test_local_with_workers_is_refused_with_a_hint():
    with pytest.raises(InputError, match="HINT"):
        resolved(RunConfig(strategy="local", workers=2))


def test_an_injection_must_name_a_rank_there_is_and_a_link_somebody_uses():
    with pytest.raises(InputError, match="there are ranks 0 to 1"):
        resolved(RunConfig(strategy="ddp", workers=2, inject="rank=2,where=data,ms=1"))
    with pytest.raises(InputError, match="there is only rank 0"):
        resolved(RunConfig(strategy="local", workers=1, inject="rank=2,where=data,ms=1"))
    with pytest.raises(InputError, match="one worker sends nothing"):
        resolved(RunConfig(strategy="local", inject="rank=0,where=link,ms=1"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"strategy": "ddp", "servers": 1},
            "--servers is for strategies with parameter servers, such as ps-sync: ddp has none",
        ),
        ({"strategy": "ps-sync", "servers": 0}, "ps-sync needs at least one"),
        ({"strategy": "ps-sync", "servers": 3, "server_placement": "shared"}, "3 servers cannot share"),
        ({"strategy": "ps-async", "sync_bn": True}, "workers talk to servers only"),
        ({"strategy": "ps-async", "buffers": "average"}, "workers talk to servers only"),
        ({"strategy": "ps-async", "start": "own"}, "workers talk to servers only"),
        ({"strategy": "ps-sync", "transport": "nccl"}, "which NCCL cannot carry: use gloo"),
        ({"strategy": "data-parallel", "sync_bn": True}, "data-parallel has no messages between replicas"),
        ({"strategy": "data-parallel", "inject": "rank=1,where=data,ms=1"}, "there is only rank 0"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict, message: str):
    with pytest.raises(InputError, match=message):
        resolved(RunConfig(workers=2, **settings))


def test_who_trains_and_who_serves():
    own = resolved(RunConfig(strategy="ps-sync", workers=3, servers=2, batch_size=6))
    assert (own.trainers, own.server_ranks, own.processes) == (3, (3, 4), 5)
    shared = resolved(RunConfig(strategy="ps-async", workers=3, batch_size=6, server_placement="shared"))
    assert (shared.trainers, shared.server_ranks, shared.processes) == (3, (0,), 3)
    replicas = resolved(RunConfig(strategy="data-parallel", workers=4))
    assert (replicas.trainers, replicas.processes) == (1, 1)


def test_what_a_strategy_says_of_itself_stays_with_the_run():
    facts = Facts(has_servers=True, asynchronous=True, spare_workers=2, option_names=("max-staleness",))
    found = resolve(RunConfig(strategy="own.py:Served", workers=3, batch_size=6), facts)
    assert (found.has_servers, found.asynchronous, found.in_one_process) == (True, True, False)
    assert (found.servers, found.spare_workers, found.transport) == (1, 2, "gloo")


SOME = [
    RunConfig(workers=4, batch_per_worker=512, hosts=("a", "b")),
    RunConfig(strategy="ps-sync", options={"aggregate": "2"}),
    RunConfig(launcher="mpi", workers=2),
    RunConfig(nodes=2, cpus=0.5),
]


@pytest.mark.parametrize("asked", SOME)
def test_what_was_asked_is_kept_and_what_it_came_to_reads_back_as_the_same(asked: RunConfig):
    found = resolved(asked)
    assert found.asked is asked
    written = json.loads(json.dumps(found.to_dict()))
    assert "asked" not in written
    assert from_dict(written, asked) == from_dict(written) == found
    assert from_dict(written, asked).asked is asked


@pytest.mark.parametrize("asked", SOME)
def test_what_is_asked_for_in_full_comes_to_itself(asked: RunConfig):
    found = resolved(asked)
    assert resolved(from_dict(found.to_dict()).asked) == found


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"threads": None}, "--threads is None: it must be a whole number"),
        ({"workers": 10**9}, "--workers is 1000000000"),
        ({"in_one_process": "yes"}, "--in-one-process is 'yes': it must be true or false"),
        ({"servers": 1}, "--servers is for strategies with parameter servers"),
        ({"launcher": "mpi"}, "processes started by mpiexec communicate over MPI"),
    ],
)
def test_what_cannot_be_is_refused_wherever_it_is_read(change: dict, sentence: str):
    with pytest.raises(InputError, match=sentence):
        from_dict(resolved(RunConfig(workers=2)).to_dict() | change)


def test_a_setting_that_must_have_a_value_may_not_be_missing_and_those_of_tomorrow_are_left_aside():
    values = resolved(RunConfig(workers=2)).to_dict()
    assert from_dict(values | {"setting_of_tomorrow": 3}) == resolved(RunConfig(workers=2))
    del values["threads"]
    with pytest.raises(InputError, match="threads is missing"):
        from_dict(values)


def test_the_default_strategy_is_known_before_anything_about_it():
    assert [strategy_name(asked) for asked in SOME] == ["ddp", "ps-sync", "bucketed", "ddp"]
    assert [worker_count(asked) for asked in SOME] == [4, 2, 2, 2]
    assert (strategy_name(RunConfig()), worker_count(RunConfig())) == ("local", 1)
    assert worker_count(RunConfig(nodes=4, strategy="local")) == 1


SHARED = {
    "workers": 2,
    "servers": 2,
    "options": {"bucket-mb": "5", "aggregate": "1"},
    "transport": "mpi",
    "launcher": "mpi",
    "mpiexec": "mpiexec.hydra",
    "inject": "rank=1,where=data,ms=1",
}


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        (Facts(option_names=("bucket-mb",)), {"servers": None, "options": {"bucket-mb": "5"}}),
        (Facts(has_servers=True, option_names=("aggregate",)), {"options": {"aggregate": "1"}}),
        (
            Facts(in_one_process=True),
            {"servers": None, "options": {}, "transport": "auto", "launcher": None, "mpiexec": None, "inject": None},
        ),
    ],
)
def test_a_run_of_a_study_has_the_settings_its_strategy_knows(facts: Facts, kept: dict):
    found = suited(RunConfig(**SHARED), facts)
    assert found == RunConfig(**SHARED | kept)


def test_who_starts_a_run_on_other_machines_is_kept_for_one_process_too():
    asked = RunConfig(strategy="local", launcher="slurm", transport="gloo")
    assert suited(asked, Facts(in_one_process=True)) == RunConfig(strategy="local", launcher="slurm")
