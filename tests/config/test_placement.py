"""Where a run takes place: what the flags add up to, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.config import RunConfig
from gradsync.config.resolved import from_dict
from gradsync.config.values import quantity
from gradsync.errors import InputError
from made_up import resolved


@given(nodes=st.integers(1, 8), each=st.integers(1, 4), servers=st.integers(0, 3), spare=st.integers(0, 3))
def test_every_rank_has_a_place_workers_in_order_and_servers_where_nobody_is(nodes, each, servers, spare):
    config = resolved(
        RunConfig(
            nodes=nodes + spare,
            workers_per_node=each,
            workers=nodes * each,
            strategy="ps-sync" if servers else "all-reduce",
            servers=servers or None,
            batch_per_worker=1,
        )
    )
    workers, served = config.places[: nodes * each], config.places[nodes * each :]
    assert len(config.places) == config.processes == nodes * each + servers
    assert workers == sorted(workers) and all(workers.count(node) == each for node in range(nodes))
    assert all(0 <= place < nodes + spare for place in served)
    assert not (spare and set(served) & set(workers))


@pytest.mark.parametrize(
    ("settings", "strategy", "workers", "nodes", "each"),
    [
        ({}, "local", 1, None, 1),
        ({"workers": 4}, "ddp", 4, None, 4),
        ({"nodes": 4}, "ddp", 4, 4, 1),
        ({"nodes": 2, "workers_per_node": 4}, "ddp", 8, 2, 4),
        ({"nodes": 4, "strategy": "local"}, "local", 1, 4, 1),
        ({"workers": 4, "bandwidth": "1gbit"}, "ddp", 4, 4, 1),
        ({"workers": 4, "nodes": 2}, "ddp", 4, 2, 2),
        ({"hosts": ("a", "b"), "workers_per_node": 3, "batch_size": 6}, "ddp", 6, 2, 3),
        ({"nodes": 3, "transport": "mpi", "batch_size": 3}, "bucketed", 3, 3, 1),
        ({"workers_per_node": 4}, "ddp", 4, None, 4),
    ],
)
def test_what_is_left_out_follows_from_the_rest(settings, strategy, workers, nodes, each):
    found = resolved(RunConfig(**settings))
    assert (found.strategy, found.workers, found.nodes, found.workers_per_node) == (strategy, workers, nodes, each)
    assert resolved(from_dict(found.to_dict()).asked) == found


@pytest.mark.parametrize(
    ("settings", "launcher", "emulated"),
    [
        ({}, "local", False),
        ({"workers": 2}, "local", False),
        ({"nodes": 1}, "local", True),
        ({"cpus": 0.5}, "local", True),
        ({"cluster": "lab"}, "local", True),
        ({"hosts": ("a", "b")}, "torchrun", False),
        ({"hosts": ("a", "b"), "launcher": "mpi"}, "mpi", False),
        ({"nodes": 2, "launcher": "slurm"}, "slurm", False),
        ({"nodes": 2, "transport": "mpi"}, "mpi", True),
    ],
)
def test_who_starts_it_and_whether_nodes_are_emulated(settings, launcher, emulated):
    found = resolved(RunConfig(**settings))
    assert (found.launcher, found.is_emulated) == (launcher, emulated)


def test_threads_fit_the_share_of_a_node():
    assert resolved(RunConfig(nodes=2, cpus=0.5)).threads == 1
    assert resolved(RunConfig(nodes=2, cpus=4, workers_per_node=2)).threads == 2
    assert resolved(RunConfig(nodes=4, cpus=2, strategy="local")).threads == 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"nodes": 0}, "--nodes is 0: it must be from 1 to 10,000"),
        ({"nodes": 2, "workers_per_node": 2, "workers": 5, "batch_size": 5}, "5 workers do not fit on 2 nodes"),
        ({"bandwidth": "fast"}, "--bandwidth is 'fast': it must be a number with gbit, mbit"),
        ({"bandwidth": "100gbit"}, "from 10kbit to 32gbit"),
        ({"bandwidth": "nangbit"}, "it must be a number with"),
        ({"latency": "2"}, "--latency is '2': it must be a number with us, ms, s"),
        ({"memory": "0GB"}, "--memory is 0GB: it must be more than 300MB"),
        ({"cpus": 0.01}, "--cpus is 0.01: it must be from 0.1 to 1,024"),
        ({"hosts": ("a",), "cpus": 0.5}, "real hosts cannot be shaped"),
        ({"hosts": ("a",), "nodes": 2}, "--hosts names 1 hosts, but --nodes is 2"),
        ({"hosts": ("a",), "launcher": "slurm"}, "--hosts is for torchrun and mpi"),
        ({"launcher": "torchrun"}, "--launcher torchrun needs hosts"),
        ({"launcher": "slurm", "bandwidth": "1gbit"}, "an emulated cluster has no Slurm"),
        ({"partition": "main"}, "--partition is for --launcher slurm"),
        ({"timeout": 0}, "--timeout is 0"),
        ({"workers": 2, "inject": "rank=1,where=link,mbit=10"}, "HINT: add --nodes 2, or give ms="),
        (
            {"nodes": 2, "bandwidth": "1mbit", "inject": "rank=1,where=link,mbit=10"},
            "makes a link faster than the others",
        ),
        ({"workers": 4, "workers_per_node": 2}, "there are no nodes. HINT: add --nodes 2"),
        ({"timeout": 1e9}, "from 1 to 86,400"),
        ({"cpus": float("inf")}, "--cpus is inf: it must be from"),
        ({"inject": "rank=1,where=data,mbit=10"}, "or, for a link, mbit=M instead of ms"),
    ],
)
def test_what_is_refused(settings: dict, sentence: str):
    with pytest.raises(InputError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        resolved(RunConfig(**settings))


@given(st.floats(0.001, 1e6), st.sampled_from([("gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)]))
def test_a_quantity_is_its_number_times_its_unit(number: float, unit: tuple[str, float]):
    units = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3, "bit": 1.0}
    assert quantity("bandwidth", f"{number}{unit[0]}", units, "1gbit") == pytest.approx(number * unit[1])
