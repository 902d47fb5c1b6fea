"""What an emulated cluster is called, and what is refused before one is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.cluster import spec
from gradsync.cluster.spec import Cluster
from gradsync.config import RunConfig, Shape
from gradsync.errors import InputError
from made_up import resolved


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "STATE", tmp_path)


def make(name: str = "lab", **shape: object) -> Cluster:
    cluster = spec.make(name, Shape(**shape))
    spec.remember(cluster)
    return cluster


@given(nodes=st.integers(1, 40), network=st.integers(0, spec.NETWORKS - 1))
def test_every_part_has_a_name_and_an_address_of_its_own(nodes: int, network: int):
    cluster = Cluster("lab", Shape(nodes=nodes), network)
    addresses = [cluster.address(node) for node in [*cluster.node_names, "switch"]]
    assert len(set(addresses)) == len(set(cluster.namespaces)) == nodes + 1
    assert all(0 < int(part) < 255 for address in addresses for part in address.split(".")[3:])


@pytest.mark.usefixtures("own_state")
def test_two_clusters_share_neither_namespaces_nor_addresses():
    one, other = make("lab", nodes=3), make("lab-2", nodes=3)
    assert not set(one.namespaces) & set(other.namespaces)
    assert {one.address(node) for node in one.node_names}.isdisjoint(map(other.address, other.node_names))


@pytest.mark.usefixtures("own_state")
def test_it_is_remembered_as_it_was_asked_for():
    cluster = make(nodes=4, bandwidth="7gbit", cpus=0.5, memory="4GB")
    assert spec.find_cluster("lab") == cluster
    assert str(cluster) == "4 nodes, 7gbit, 0.5 CPUs each, 4GB each"
    spec.write_hosts(cluster)
    assert "10.77.0.2 node2" in spec.hosts_file("lab").read_text()
    spec.forget("lab")
    assert spec.names() == [] and not spec.hosts_file("lab").exists()


@pytest.mark.usefixtures("own_state")
def test_a_second_one_of_the_same_name_is_refused():
    make()
    with pytest.raises(InputError, match="there is a cluster lab already"):
        make()
    with pytest.raises(InputError, match="there is a cluster lab already"):
        spec.remember(Cluster("lab", Shape(nodes=2), 7))


@pytest.mark.usefixtures("own_state")
def test_a_cluster_of_another_version_is_named_and_passed_over():
    spec.file_of("old").write_text('{"name": "old", "switch": 7}')
    with pytest.raises(
        InputError, match=r"old\.json, is damaged, or was made by another version of gradsync: it has no 'shape'"
    ):
        spec.find_cluster("old")
    make()
    assert [cluster.name for cluster in spec.everyone()] == ["lab"]
    assert spec.names() == ["lab", "old"]


@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize("name", ["", "Lab", "a b", "-lab", "../lab", "x" * 40])
def test_a_name_that_cannot_be_one(name: str):
    with pytest.raises(InputError, match="cannot name a cluster"):
        spec.make(name, Shape())


@pytest.mark.usefixtures("own_state")
def test_unknown_names_list_the_known_ones():
    make()
    with pytest.raises(InputError, match=r"unknown cluster 'lap'. Did you mean lab"):
        spec.find_cluster("lap")
    with pytest.raises(InputError, match=r"unknown node of lab: 'node3'. Did you mean node"):
        spec.find_cluster("lab").number("node3")


@pytest.mark.usefixtures("own_state")
def test_a_run_takes_over_what_its_cluster_is_like():
    make(nodes=3, bandwidth="1gbit", cpus=0.5)
    config = resolved(spec.filled(RunConfig(cluster="lab", batch_size=48)))
    assert (config.nodes, config.bandwidth, config.cpus, config.workers, config.threads) == (3, "1gbit", 0.5, 3, 1)
    assert spec.filled(config) == config


@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize("contradiction", [{"nodes": 2}, {"bandwidth": "2gbit"}, {"memory": "1GB"}])
def test_a_run_that_asks_for_another_cluster_than_it_names(contradiction: dict):
    make(nodes=3, bandwidth="1gbit")
    with pytest.raises(InputError, match="but the cluster lab has"):
        spec.filled(RunConfig(cluster="lab", **contradiction))
