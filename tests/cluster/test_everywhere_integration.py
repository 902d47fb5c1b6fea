"""The same command on every node: its lines, its exit code, and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gradsync.cluster import lifecycle, namespaces, spec
from gradsync.cluster.everywhere import filled
from gradsync.cluster.spec import Cluster
from in_process import gradsync
from root import needs_cpu_shares, needs_root, own_name
from started import heed_signals


def test_only_rank_and_node_are_filled_in():
    assert filled(["a{rank}", "{node}:{x}", "${}"], 3, "node3") == ["a3", "node3:{x}", "${}"]


@pytest.fixture(scope="module")
def cloudlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """As it comes, by the command: four nodes."""
    name = own_name("all")
    done = gradsync(["cluster", "up", name, "--like", "cloudlab"], tmp_path_factory.mktemp("up"), {})
    assert done.returncode == 0, done.stderr
    cluster = spec.find_cluster(name)
    yield cluster
    lifecycle.down(cluster)


def command(cluster: Cluster, text: str) -> list[str]:
    return [sys.executable, "-m", "gradsync.cli", "cluster", "exec", cluster.name, "all", "--", "sh", "-c", text]


@needs_root
@needs_cpu_shares
def test_it_has_the_nodes_and_the_link_of_the_course(cloudlab: Cluster):
    addresses = {node: cloudlab.address(node) for node in cloudlab.node_names}
    assert addresses == {f"node{number}": f"10.10.1.{number + 1}" for number in range(4)}
    assert (cloudlab.shape.bandwidth, cloudlab.interface) == ("7gbit", "eth1")


@needs_root
@needs_cpu_shares
def test_every_line_has_the_name_of_its_node_and_the_first_failure_is_the_exit_code(cloudlab: Cluster):
    text = "hostname; hostname -I; grep -c eth1 /proc/net/dev; grep {node} /etc/hosts"
    text += "; echo $GLOO_SOCKET_IFNAME; printf x"
    done = subprocess.run(command(cloudlab, f"{text}; exit {{rank}}"), capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2, 3)  # of node1, node2 or node3, whichever ended first
    for number in range(4):
        own = [line for line in done.stdout.splitlines() if line.startswith(f"node{number}: ")]
        said = [f"node{number}", f"10.10.1.{number + 1} ", "1", f"10.10.1.{number + 1} node{number}", "eth1", "x"]
        assert own == [f"node{number}: {line}" for line in said]
    assert len(done.stdout.splitlines()) == 24


@needs_root
@needs_cpu_shares
def test_a_signal_ends_the_command_on_every_node(cloudlab: Cluster):
    with subprocess.Popen(
        command(cloudlab, "echo ready; sleep 600"), stdout=subprocess.PIPE, text=True, preexec_fn=heed_signals
    ) as running:
        assert running.stdout
        assert {running.stdout.readline() for _ in range(4)} == {f"node{number}: ready\n" for number in range(4)}
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 128 + signal.SIGINT
    assert [pid for place in cloudlab.namespaces for pid in namespaces.processes_in(place)] == []
