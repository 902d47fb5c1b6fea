"""An emulated cluster as it was asked for: names and addresses of its parts, and the file that remembers it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from gradsync.config import Placement, Shape
from gradsync.config.values import counted, flag
from gradsync.errors import InputError, unknown
from gradsync.record import write_json
from gradsync.record.writing import write_whole

PREFIX = "gradsync-"  # of every name in the kernel that belongs to us
STATE = Path("/run/gradsync")
NETWORKS = 256
DEFAULT_NODES, MOST_NODES = 2, 250
Placed = TypeVar("Placed", bound=Placement)


@dataclass(frozen=True)
class NodeLayout:
    """What the nodes and their interfaces are called, where their addresses begin, and what they have by default."""

    network: str
    """Of the addresses of a cluster, whose own number stands for {}."""

    first: int
    """The number of the first node; its address ends in 1 whatever it is."""

    interface: str
    shape: Shape


USUAL = NodeLayout("10.77.{}", 1, "eth0", Shape(nodes=DEFAULT_NODES))
LAYOUTS = {
    # Four nodes node0 to node3, at the addresses that the scripts of the course have built in.
    "cloudlab": NodeLayout("10.10.1", 0, "eth1", Shape(nodes=4, bandwidth="7gbit", cpus=0.5)),
}


def layout(like: str | None) -> NodeLayout:
    if like is not None and like not in LAYOUTS:
        raise unknown("cluster to be like:", like, LAYOUTS)
    return LAYOUTS[like] if like else USUAL


@dataclass(frozen=True)
class Cluster:
    """What ``up`` was asked for, and which of the private networks the cluster uses."""

    name: str
    shape: Shape
    """The shape asked for, with its number of nodes."""

    network: int
    groups: tuple[str, ...] = ()
    """The control groups made for it: one folder for each controller."""

    like: str | None = None
    """The cluster whose names and addresses it has."""

    @property
    def nodes(self) -> int:
        assert self.shape.nodes
        return self.shape.nodes

    @property
    def node_names(self) -> list[str]:
        return [f"node{number}" for number in range(self.layout.first, self.layout.first + self.nodes)]

    @property
    def layout(self) -> NodeLayout:
        return layout(self.like)

    @property
    def interface(self) -> str:
        """In every node."""
        return self.layout.interface

    @property
    def namespaces(self) -> list[str]:
        return [self.namespace("switch"), *map(self.namespace, self.node_names)]

    def namespace(self, part: str) -> str:
        """The namespace of a node, or of the switch."""
        return f"{PREFIX}{self.name}-{part}"

    def number(self, node: str) -> int:
        """Its place, from 1."""
        if node not in self.node_names:
            raise unknown(f"node of {self.name}:", node, self.node_names)
        return self.node_names.index(node) + 1

    def address(self, node: str) -> str:
        return f"{self.layout.network.format(self.network)}.{254 if node == 'switch' else self.number(node)}"

    def port(self, node: str) -> str:
        """The switch's end of a node's link."""
        return f"port{self.number(node)}"

    def __str__(self) -> str:
        shape = self.shape
        parts = [counted(self.nodes, "node"), shape.bandwidth or "links as fast as the host"]
        parts += [f"latency {shape.latency}"] if shape.latency else []
        parts += [f"{shape.cpus:g} CPUs each"] if shape.cpus else []
        parts += [f"{shape.memory} each"] if shape.memory else []
        return ", ".join(parts)


class Damaged(InputError):
    """The file of a cluster cannot be read, or does not describe a cluster."""


def make(name: str, asked: Shape, like: str | None = None) -> Cluster:
    """A new cluster, with a network that no other one uses.

    Those that are like another one may share its addresses: no two clusters can reach each other.
    """
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", name):
        raise InputError(f"{name!r} cannot name a cluster: use up to 32 lowercase letters, digits and dashes.")
    if name in names():
        raise InputError(
            f"there is a cluster {name} already ({find_cluster(name)}). "
            f"HINT: gradsync cluster down {name}, or another name."
        )
    taken = {other.network for other in everyone()}
    network = next((number for number in range(NETWORKS) if number not in taken), None)
    if network is None:
        raise InputError(f"there are {NETWORKS} clusters already: take some down with gradsync cluster down --all.")
    return Cluster(name, completed(asked, like), network, like=like)


def completed(asked: Shape, like: str | None = None) -> Shape:
    """With the defaults of its layout for what was not asked for."""
    usual = layout(like).shape
    values = {item.name: getattr(asked, item.name) for item in fields(Shape)}
    return Shape(**{name: getattr(usual, name) if value is None else value for name, value in values.items()})


def file_of(name: str) -> Path:
    return STATE / f"{name}.json"


@contextmanager
def locked() -> Iterator[None]:
    """A lock: one command at a time chooses a name and a network."""
    STATE.mkdir(exist_ok=True, parents=True)
    with FileLock(STATE / ".lock"):
        yield


def remember(cluster: Cluster) -> None:
    """Write its file, if the name is free. The caller holds the lock."""
    if file_of(cluster.name).exists():
        raise InputError(f"there is a cluster {cluster.name} already.")
    write_json(file_of(cluster.name), asdict(cluster), indent=None)


def write_hosts(cluster: Cluster) -> None:
    """The /etc/hosts of the nodes: names for their addresses. Name servers are not reachable from there."""
    lines = ["127.0.0.1 localhost", *(f"{cluster.address(node)} {node}" for node in cluster.node_names)]
    write_whole(hosts_file(cluster.name), "\n".join(lines) + "\n")


def hosts_file(name: str) -> Path:
    return STATE / f"{name}.hosts"


def names() -> list[str]:
    return sorted(path.stem for path in STATE.glob("*.json"))


def find_cluster(name: str) -> Cluster:
    if name not in names():
        raise unknown("cluster", name, names(), f"Make it with: gradsync cluster up {name} --nodes 4.")
    try:
        return remembered(name)
    except FileNotFoundError:  # gone while we looked
        raise unknown("cluster", name, names()) from None
    except Exception as error:
        # Whatever is in the file, or in its place: not JSON, not UTF-8, nested a thousand deep, of another version.
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or type(error).__name__
        raise Damaged(
            f"the file of the cluster {name}, {file_of(name)}, is damaged, or was made by another version of "
            f"gradsync: {why}. HINT: gradsync cluster down {name} removes what carries its name."
        ) from None


def remembered(name: str) -> Cluster:
    values = {"like": None, **json.loads(file_of(name).read_text(encoding="utf-8"))}  # earlier versions had none
    shape, groups = Shape(**values["shape"]), tuple(values["groups"])
    network, nodes, like = values["network"], shape.nodes, values["like"]
    if (
        values["name"] != name
        or set(values) != {item.name for item in fields(Cluster)}
        or like not in (None, *LAYOUTS)
    ):
        raise ValueError("it is the file of another cluster")
    if type(network) is not int or not 0 <= network < NETWORKS or not nodes or nodes > MOST_NODES:
        raise ValueError("its network or its number of nodes is impossible")
    if not all(isinstance(folder, str) and Path(folder).name == f"{PREFIX}{name}" for folder in groups):
        raise ValueError("its control groups do not carry its name")
    return Cluster(name, shape, network, groups, like)


def filled(config: Placed) -> Placed:
    """The settings with the shape of the named cluster, for the record; contradictions are refused."""
    if not config.cluster:
        return config
    cluster = find_cluster(config.cluster)
    for item in fields(Shape):
        asked, there = getattr(config, item.name), getattr(cluster.shape, item.name)
        if asked not in (None, there):
            raise InputError(
                f"{flag(item.name)} is {asked}, but the cluster {cluster.name} has {there or 'no such limit'} "
                f"({cluster}). HINT: leave it out, or make another cluster."
            )
    return replace(config, **asdict(cluster.shape))


def everyone() -> list[Cluster]:
    """All clusters that this version can read, without those removed meanwhile."""
    found = []
    for name in names():
        with suppress(InputError):
            found.append(find_cluster(name))
    return found


def damaged() -> dict[str, str]:
    """name -> why it cannot be read"""
    found = {}
    for name in names():
        try:
            find_cluster(name)
        except Damaged as error:
            found[name] = str(error)
        except InputError:  # gone while we looked
            continue
    return found


def forget(name: str) -> None:
    for path in (hosts_file(name), file_of(name)):
        if path.is_dir() and not path.is_symlink():  # no matter who has put it there: the name must become free
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
