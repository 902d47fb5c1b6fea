"""A real cluster of namespaces: is it what was asked for, and does it go without a trace?"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradsync.cluster import gauge, groups, lifecycle, namespaces, network, spec
from gradsync.cluster.enter import command
from gradsync.cluster.spec import Cluster
from gradsync.config import Shape
from gradsync.errors import InputError
from root import left_behind, needs_cpu_shares, needs_root, own_name

pytestmark = [needs_root, pytest.mark.alone]


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    shared = 0.5 if "cpu" in groups.controllers() else None
    cluster = lifecycle.up(own_name("lab"), Shape(nodes=3, bandwidth="1gbit", cpus=shared))
    yield cluster
    lifecycle.down(cluster)


def on(cluster: Cluster, node: str, *words: str) -> str:
    return subprocess.run(
        command(cluster, node, *words), capture_output=True, text=True, timeout=30, check=True
    ).stdout


@needs_cpu_shares
def test_twenty_times_up_and_down_leaves_nothing():
    before = left_behind()
    for _ in range(20):
        cluster = lifecycle.up(own_name("again"), Shape(nodes=3, bandwidth="1gbit", cpus=0.5, memory="1GB"))
        assert len(namespaces.existing(cluster.namespace(""))) == 4
        lifecycle.down(cluster)
        lifecycle.down(cluster)
    assert left_behind() == before


def test_what_a_killed_command_leaves_is_taken_away():
    """Killed while it makes the cluster, and killed with a process on it that has left its parent."""
    program = """
import subprocess, sys, time
from gradsync.cluster import lifecycle, network
from gradsync.cluster.enter import command
from gradsync.config import Shape
if sys.argv[1] == "halfway":
    network.shape = lambda *_: (print("here", flush=True), time.sleep(60))
cluster = lifecycle.up(sys.argv[2], Shape(nodes=2, memory="1GB"))
subprocess.run(command(cluster, "node2", "sh", "-c", "sleep 600 >/dev/null & echo here"))
time.sleep(60)
"""
    before = left_behind()
    for when in ("halfway", "whole"):
        words = [sys.executable, "-c", program, when, own_name(when)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as making:
            assert making.stdout and making.stdout.readline() == b"here\n"
            making.send_signal(signal.SIGKILL)
        cluster = spec.find_cluster(own_name(when))
        assert set(left_behind()) > set(before)
        assert bool(namespaces.processes_in(cluster.namespace("node2"))) == (when == "whole")
        if before:
            lifecycle.down(cluster)
        else:  # nobody else has a cluster here
            assert cluster.name in lifecycle.down_all()
        assert [pid for place in cluster.namespaces for pid in namespaces.processes_in(place)] == []
    assert left_behind() == before


def test_a_cluster_whose_file_is_damaged_is_taken_away_by_its_name(lab: Cluster):
    """With the processes on it; another one, whose name begins in the same way, stays."""
    name = own_name("torn")
    torn, other = (lifecycle.up(each, Shape(nodes=2, memory="1GB")) for each in (name, f"{name}-2"))
    try:
        words = command(torn, "node2", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo here")
        assert subprocess.run(words, capture_output=True, timeout=30).stdout == b"here\n"
        spec.file_of(name).write_bytes(b'{"name": \xff')
        assert on(lab, "node1", "hostname") == "node1\n"
        lifecycle.down_named(name)
        assert not set(torn.namespaces) & set(namespaces.existing(spec.PREFIX))
        assert not any(Path(folder).exists() for folder in torn.groups)
        assert set(other.namespaces) <= set(namespaces.existing(spec.PREFIX))
    finally:
        lifecycle.down(other)
        lifecycle.down(torn)
    assert not [item for item in left_behind() if name in item]


def test_a_node_has_its_own_name_address_and_interface(lab: Cluster):
    assert on(lab, "node2", "hostname") == "node2\n"
    interfaces = [line.split(":")[0].strip() for line in on(lab, "node2", "cat", "/proc/net/dev").splitlines()[2:]]
    assert sorted(interfaces) == ["eth0", "lo"]
    assert f"{lab.address('node3')} node3" in on(lab, "node2", "cat", "/etc/hosts")
    wrong = subprocess.run(command(lab, "node2", "no-such-command"), capture_output=True, text=True, timeout=30)
    assert wrong.returncode == 127 and wrong.stderr == "gradsync: there is no command no-such-command here.\n"


@pytest.mark.parametrize("bandwidth", ["1gbit", "7gbit"])
def test_links_carry_what_was_asked_for(bandwidth: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gauge, "RATE_SECONDS", 0.3)
    asked = Shape(nodes=3, bandwidth=bandwidth)
    cluster = lifecycle.up(own_name("rate"), asked)
    try:
        rates = [pair.bits_per_second / asked.bits_per_second for pair in gauge.measure_pairs(cluster)]
        together = gauge.rate_into(cluster, ["node2", "node3"], "node1") / asked.bits_per_second
    finally:
        lifecycle.down(cluster)
    assert len(rates) == 6
    assert all(0.9 < rate < 1.05 for rate in rates)  # a busy host may take a moment away from one of them
    assert 0.95 < statistics.median(rates) < 1.05
    assert 0.9 < together < 1.05  # two senders share the link of the one they send to


@needs_cpu_shares
def test_every_node_gets_its_share_of_the_cores(lab: Cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gauge, "SHARE_SECONDS", 1.0)
    shares = gauge.measure_shares(lab)
    assert sorted(shares) == lab.node_names
    assert all(0.3 < share < 0.55 for share in shares.values())  # never more; less only where the host is busy


def test_a_cut_node_is_unreachable_until_it_is_healed(lab: Cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gauge, "PATIENCE", 0.5)
    network.set_attached(lab, "node2", False)
    assert not network.is_attached(lab, "node2")
    with pytest.raises(TimeoutError), gauge.connected(lab, "node1", "node2"):
        pass
    with gauge.connected(lab, "node1", "node3"):
        pass
    network.set_attached(lab, "node2", True)
    monkeypatch.setattr(gauge, "PATIENCE", 5.0)
    with gauge.connected(lab, "node1", "node2") as (sender, receiver):
        assert gauge.ping(sender, receiver) > 0


def test_what_cannot_be_had_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch):
    before = left_behind()

    def refuse(namespace: str) -> None:
        raise InputError("--latency needs the kernel's netem")

    if "CONFIG_NET_SCH_NETEM" not in str(kernel_without_netem()):
        monkeypatch.setattr(network, "refuse_missing_netem", refuse)
    with pytest.raises(InputError, match="--latency needs the kernel's netem"):
        lifecycle.up(own_name("refused"), Shape(nodes=2, latency="1ms"))
    assert left_behind() == before


def kernel_without_netem() -> InputError | None:
    try:
        lifecycle.check_netem()
    except InputError as error:
        return error
    return None


def test_latency_is_what_was_asked_for():
    if error := kernel_without_netem():
        pytest.skip(str(error))
    cluster = lifecycle.up(own_name("late"), Shape(nodes=2, latency="5ms"))
    try:
        assert all(0.010 <= pair.round_trip < 0.013 for pair in gauge.measure_pairs(cluster))
    finally:
        lifecycle.down(cluster)


def test_without_root_a_user_namespace_is_tried(tmp_path: Path):
    """The capabilities are dropped for good, as if nobody had ever given them."""
    program = """
import ctypes, os, subprocess, sys
if "dropped" not in sys.argv:
    for capability in (12, 21):  # CAP_NET_ADMIN, CAP_SYS_ADMIN
        assert ctypes.CDLL(None).prctl(24, capability) == 0
    os.execv(sys.executable, [sys.executable, __file__, "dropped"])
from gradsync.cluster import gauge, groups, lifecycle, privilege
from gradsync.cluster.enter import command
from gradsync.config import Shape
from gradsync.errors import InputError
assert not privilege.has_all()
try:
    cluster = lifecycle.up("test-user", Shape(nodes=2, bandwidth="100mbit"))
except InputError as error:
    print(error)
    sys.exit(2)
assert subprocess.run(command(cluster, "node2", "hostname"), capture_output=True).stdout == b"node2\\n"
rates = [pair.bits_per_second for pair in gauge.measure_pairs(cluster)]
lifecycle.down(cluster)
print(*rates)
"""
    (tmp_path / "program.py").write_text(program)
    before = left_behind()
    found = subprocess.run(
        [sys.executable, tmp_path / "program.py"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    if found.returncode == 2:
        assert "an emulated cluster needs root" in found.stdout
        pytest.skip(found.stdout)
    assert found.returncode == 0, found.stderr
    assert all(95e6 < float(rate) < 105e6 for rate in found.stdout.split())
    assert left_behind() == before
    keeper = int((tmp_path / f"gradsync-{os.getuid()}" / "keeper").read_text())
    until = time.monotonic() + 15
    while Path(f"/proc/{keeper}").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(f"/proc/{keeper}").exists()  # it ends with the last cluster
