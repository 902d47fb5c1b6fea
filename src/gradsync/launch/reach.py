"""How to run a command on a node of a run: inside an emulated one, or on a host over ssh."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from gradsync.cluster import lifecycle, network
from gradsync.cluster.enter import command as on_node
from gradsync.cluster.spec import Cluster
from gradsync.config import Resolved, parse_injection
from gradsync.launch.processes import words_of
from gradsync.parent import signals_held
from gradsync.record.writing import write_whole

MEETING_PORTS = range(20_000, 30_000)
CONNECT_SECONDS = 10


class Reach(Protocol):
    """The nodes of a run, numbered from 0."""

    names: list[str]

    def command(self, node: int, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """The local command that runs these words on a node."""

    def from_first(self, words: Sequence[str]) -> list[str]:
        """The local command for a program that reaches the other nodes by itself."""

    def shell(self, folder: Path) -> list[str]:
        """Options with which mpiexec reaches the nodes. The script they may name is written into the folder."""

    def send(self, folders: Sequence[Path]) -> None:
        """Copy the run folders to nodes that do not share them."""

    def fetch(self, folders: Sequence[Path]) -> None:
        """Copy back what was written into them there."""


class Emulated:
    """Nodes of a cluster on this machine; the run folders are the same files everywhere."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.names = cluster.node_names

    def command(self, node: int, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        settings = [f"{name}={value}" for name, value in environment.items()]
        return on_node(self.cluster, self.names[node], *(["env", *settings] if settings else []), *words)

    def from_first(self, words: Sequence[str]) -> list[str]:
        return self.command(0, words, {})

    def shell(self, folder: Path) -> list[str]:
        """A script that is called like ssh: options, the name of a node, and the command for it."""
        enter = shlex.join(on_node(self.cluster))
        options = 'while [ "${1#-}" != "$1" ]; do shift; done'
        text = f'#!/bin/sh\n{options}\nnode=$1; shift\nexec {enter} "$node" sh -c "$*"\n'
        return ["-launcher", "ssh", "-launcher-exec", script(folder, text), "-iface", self.cluster.interface]

    def send(self, folders: Sequence[Path]) -> None: ...

    def fetch(self, folders: Sequence[Path]) -> None: ...


class Ssh:
    """Real hosts. It does not matter whether they share the run folders with us."""

    def __init__(self, config: Resolved) -> None:
        self.names = list(config.hosts)
        self.addresses = [host.rpartition("@")[2] for host in config.hosts]
        self._ssh = [*words_of("--ssh", config.ssh), "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
        self._is_plain = config.ssh == "ssh"

    def command(self, node: int, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        settings = [f"{name}={value}" for name, value in environment.items()]
        line = f"cd {shlex.quote(os.getcwd())} 2>/dev/null; exec {shlex.join(['env', *settings, *words])}"
        # -tt allocates a terminal: when the connection ends for any reason, what it started gets SIGHUP and ends too.
        return [*self._ssh, "-tt", self.names[node], line]

    def free_port(self) -> int:
        """A port on the first host, not checked to be free; two runs at once are unlikely to choose the same."""
        return MEETING_PORTS[uuid.uuid4().int % len(MEETING_PORTS)]

    def from_first(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def shell(self, folder: Path) -> list[str]:
        if self._is_plain:  # mpiexec uses plain ssh by default
            return []
        text = f'#!/bin/sh\nexec {shlex.join(self._ssh)} "$@"\n'
        return ["-launcher", "ssh", "-launcher-exec", script(folder, text)]

    def send(self, folders: Sequence[Path]) -> None:
        for folder in map(os.path.abspath, folders):
            pack = ["tar", "-C", folder, "-cf", "-", "."]
            for host in self.names:
                unpack = f"mkdir -p {shlex.quote(folder)} && tar -C {shlex.quote(folder)} --skip-old-files -xf -"
                pipe(pack, [*self._ssh, host, unpack])

    def fetch(self, folders: Sequence[Path]) -> None:
        for folder in map(os.path.abspath, folders):
            for host in self.names:
                pack = [*self._ssh, host, f"tar -C {shlex.quote(folder)} -cf - ."]
                try:
                    pipe(pack, ["tar", "-C", folder, "--skip-old-files", "-xf", "-"])
                except HostUnreachable as error:  # the records of the other hosts are still worth having
                    print(f"nothing could be fetched from {host}: {error}", file=sys.stderr, flush=True)


def script(folder: Path, text: str) -> str:
    path = (folder / "shell").absolute()
    write_whole(path, text)
    path.chmod(0o755)
    return str(path)


class HostUnreachable(Exception):
    """The message carries the stderr of ssh."""


def pipe(source: Sequence[str], target: Sequence[str]) -> None:
    """Pipe the output of one command into another."""
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(source, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as first,
    ):
        second = subprocess.Popen(target, stdin=first.stdout, stdout=subprocess.DEVNULL, stderr=said)
        assert first.stdout
        first.stdout.close()  # so that the first gets SIGPIPE when the second has ended
        second.wait()
        first.wait()
        said.seek(0)
        told = said.read()
    if first.returncode or second.returncode:
        raise HostUnreachable(" ".join(told.decode(errors="replace").split()) or shlex.join([*source, "|", *target]))


@contextmanager
def reached(config: Resolved) -> Iterator[Reach]:
    """The nodes, for as long as the run lasts."""
    if config.hosts:
        yield Ssh(config)
        return
    with emulated(config) as nodes:
        yield nodes


@contextmanager
def emulated(config: Resolved) -> Iterator[Emulated]:
    with lifecycle.for_run(config) as cluster, slowed_link(config, cluster):
        yield Emulated(cluster)


@contextmanager
def slowed_link(config: Resolved, cluster: Cluster) -> Iterator[None]:
    """Slow down the link of one node during the run, if the settings ask for it."""
    injection = parse_injection(config.inject)
    if injection is None or not injection.bits_per_second:
        yield
        return
    node = cluster.node_names[config.places[injection.rank]]
    try:
        network.shape(cluster, node, injection.bits_per_second, cluster.shape.latency_seconds)
        yield
    finally:
        with signals_held():
            network.shape(cluster, node, cluster.shape.bits_per_second, cluster.shape.latency_seconds)
