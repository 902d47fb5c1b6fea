"""Runs on several nodes: emulated ones, with mpiexec or servers on them, and hosts reached over ssh."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradsync import launch
from gradsync.cluster import lifecycle, namespaces, network, spec
from gradsync.cluster.enter import command
from gradsync.cluster.spec import Cluster
from gradsync.config import RunConfig, Shape
from gradsync.figures.catalogue.of_traffic import OVERHEAD
from gradsync.figures.figure import At
from gradsync.library.runs.check import resolved
from gradsync.record import Run, read_run
from root import left_behind, needs_root, own_name
from started import Started, alive, wait_until

pytestmark = [needs_root, pytest.mark.timeout(180)]

SHORT = {"model": "logistic", "batch_size": 24, "steps": 10, "eval": False, "threads": 1}
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    cluster = lifecycle.up(own_name("runs"), Shape(nodes=3, bandwidth="1gbit"))
    yield cluster
    lifecycle.down(cluster)


def run(folder: Path, **settings: object) -> Run:
    return launch.run(resolved(RunConfig(**{"out": str(folder), **SHORT, **settings})))


@pytest.fixture(scope="module")
def on_one_machine(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """workers -> the bits every rank ends with"""
    folder = tmp_path_factory.mktemp("local")
    return {workers: bits(run(folder, workers=workers, strategy="all-reduce")) for workers in (2, 4)}


def bits(run: Run) -> str:
    assert run.status == "completed", run.summary.error
    found = {rank.parameters_sha256 for rank in run.summary.ranks}
    assert len(found) == 1
    return found.pop()


def test_two_nodes_with_two_ranks_each_compute_what_one_machine_does(tmp_path: Path, on_one_machine: dict[int, str]):
    before = left_behind()
    found = run(tmp_path, strategy="all-reduce", nodes=2, workers_per_node=2)
    assert bits(found) == on_one_machine[4]
    assert [rank.node for rank in found.summary.ranks] == ["node1", "node1", "node2", "node2"]
    assert (found.summary.nodes, found.summary.workers_per_node, found.summary.world_size) == (2, 2, 4)
    assert left_behind() == before  # the cluster was made for this run


def test_mpiexec_on_nodes_computes_what_one_machine_does(
    tmp_path: Path, lab: Cluster, on_one_machine: dict[int, str]
):
    pytest.importorskip("mpi4py")
    found = run(tmp_path, strategy="all-reduce", cluster=lab.name, workers=2, transport="mpi")
    assert bits(found) == on_one_machine[2]
    assert [rank.node for rank in found.summary.ranks] == ["node1", "node2"]


def test_bytes_are_counted_on_the_interface_of_each_node(tmp_path: Path, lab: Cluster):
    settings = SHORT | {"model": "vgg11", "batch_size": 6, "steps": 3, "out": str(tmp_path), "cluster": lab.name}
    ways = ("all-reduce", "gather-scatter")
    runs = launch.run_in_turn([resolved(RunConfig(**settings, strategy=way)) for way in ways])
    sent = {}
    for way, found in zip(ways, runs, strict=True):
        assert found.status == "completed", found.summary.error
        networks = [rank.network for rank in found.summary.ranks]
        assert {item.source for item in networks} == {"interface eth0"}
        assert all(abs(OVERHEAD.of(At(found, rank))) < 0.02 for rank in range(len(networks)))
        sent[way] = [(item.sent_bytes + item.received_bytes) / item.steps for item in networks]
    assert sent["gather-scatter"][0] == pytest.approx(2 * sent["gather-scatter"][1], rel=0.02)
    assert sent["all-reduce"][0] == pytest.approx(sent["all-reduce"][1], rel=0.02)
    assert set(runs[0].summary.cluster.run_delay_percent) == {"node1", "node2", "node3"}


def test_servers_live_on_nodes_of_their_own_where_there_are_any(tmp_path: Path, lab: Cluster):
    found = run(tmp_path, strategy="ps-sync", cluster=lab.name, workers=2, servers=1)
    assert found.status == "completed", found.summary.error
    assert [rank.node for rank in found.summary.ranks + found.summary.servers] == ["node1", "node2", "node3"]


def test_a_slow_link_is_named_with_its_rank(tmp_path: Path, lab: Cluster):
    found = run(
        tmp_path,
        model="mnist-cnn",
        strategy="all-reduce",
        cluster=lab.name,
        inject="rank=1,where=link,mbit=50",
        steps=6,
    )
    straggler = found.summary.straggler
    assert (straggler.rank, straggler.cause) == (1, "link")
    # 11 Mbyte in 6 steps take 1.8 s more at 50 Mbit/s than at 1 Gbit/s; not all of it is on one connection
    assert 0.1 < straggler.seconds < 1.0


def test_a_cut_node_ends_the_run_with_a_sentence_unless_it_is_healed_in_time(tmp_path: Path, lab: Cluster):
    started = Started(tmp_path, "--cluster", lab.name, "--strategy", "all-reduce", "--timeout", "6", workers=3)
    try:
        network.set_attached(lab, "node2", False)
        time.sleep(1.5)
        steps = started.steps(0)
        network.set_attached(lab, "node2", True)
        wait_until(lambda: started.steps(0) > steps + 20, 20)
        network.set_attached(lab, "node2", False)
        begin = time.monotonic()
        _, told = started.process.communicate(timeout=60)
        assert time.monotonic() - begin < 30
        assert started.process.returncode == 1
        assert "NodeUnreachable: node2 cannot be reached: ranks 0, 2 got no answer from it" in told
        assert [pid for pid in started.pids if alive(pid)] == []
    finally:
        started.end()
        network.set_attached(lab, "node2", True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_leaves_nothing(tmp_path: Path, number: signal.Signals):
    before = left_behind()
    started = Started(tmp_path, "--nodes", "3", workers=3)
    try:
        assert len(left_behind()) > len(before)
        places = {place for cluster in spec.everyone() for place in cluster.namespaces}
        started.process.send_signal(number)
        _, told = started.process.communicate(timeout=30)
        assert "[c10d]" not in told  # torch's warnings about addresses without a name
        if number == signal.SIGINT:
            assert started.process.returncode == 130
            assert started.run().status == "failed"
        else:  # nobody was left to clean up: the next run does
            wait_until(lambda: not any(map(namespaces.processes_in, places)), 20)
            lifecycle.remove_abandoned()
        assert left_behind() == before
        assert [pid for pid in started.pids if alive(pid)] == []
    finally:
        started.end()
        lifecycle.remove_abandoned()


@pytest.mark.skipif(SSHD is None, reason="needs sshd: apt-get install openssh-server")
def test_torchrun_on_hosts_over_ssh_computes_what_one_machine_does(
    tmp_path: Path, lab: Cluster, on_one_machine: dict[int, str]
):
    """Two nodes with an sshd each are the hosts; the command is given on the third."""
    assert SSHD
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (tmp_path / "key.pub").rename(tmp_path / "authorized_keys")
    Path("/run/sshd").mkdir(exist_ok=True)
    lines = [f"HostKey {key}", f"AuthorizedKeysFile {tmp_path}/authorized_keys", "PidFile none", "UsePAM no"]
    lines += ["StrictModes no", "PermitRootLogin yes", "MaxStartups 50"]
    (tmp_path / "sshd").write_text("\n".join(lines) + "\n")
    ssh = f"ssh -F none -i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    settings = [
        "--model",
        "logistic",
        "--batch-size",
        "24",
        "--steps",
        "10",
        "--no-eval",
        "--threads",
        "1",
        "--strategy",
        "all-reduce",
    ]
    train = [sys.executable, "-m", "gradsync.cli", "train", *settings, "--workers-per-node", "2", "--ssh", ssh]
    nodes = ("node1", "node2")
    daemons = [subprocess.Popen(command(lab, node, SSHD, "-D", "-f", str(tmp_path / "sshd"))) for node in nodes]
    try:
        for node in nodes:
            patient = [*ssh.split(), "-o", "ConnectionAttempts=10"]
            subprocess.run(command(lab, "node3", *patient, node, "true"), check=True)
        hosts = ["--hosts", "node1,node2", "--out", str(tmp_path / "runs")]
        done = subprocess.run(command(lab, "node3", *train, *hosts), capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        (folder,) = (tmp_path / "runs").iterdir()
        found = read_run(folder)
        assert bits(found) == on_one_machine[4]
        assert [rank.node for rank in found.summary.ranks] == ["node1"] * 2 + ["node2"] * 2
        gone = ["--hosts", "node1,nowhere", "--out", str(tmp_path / "gone")]
        failed = subprocess.run(command(lab, "node3", *train, *gone), capture_output=True, text=True, timeout=60)
        assert failed.returncode == 1 and "HostUnreachable: ssh: Could not resolve hostname nowhere" in failed.stderr
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait(timeout=10)
