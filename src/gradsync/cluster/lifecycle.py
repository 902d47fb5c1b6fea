"""Make an emulated cluster, and remove it without a trace, whatever state it is in."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from gradsync.cluster import groups, namespaces, network, privilege, spec
from gradsync.cluster.spec import PREFIX, Cluster
from gradsync.config import Placement, Shape
from gradsync.errors import InputError
from gradsync.parent import signals_held, state

GRACE_SECONDS = 2.0  # from asking the processes of a node to end until they are killed
GONE_SECONDS = 5.0
FOR_ONE_RUN = "run-"
_numbers = count(1)


def up(name: str, asked: Shape, like: str | None = None) -> Cluster:
    """Create a cluster. What this host cannot provide is refused beforehand; what fails halfway is removed again."""
    if like is not None:
        asked = spec.completed(asked, like)
    chosen = check(asked)
    folders = {item.name: item.parent / f"{PREFIX}{name}" for item in chosen}
    with spec.locked():
        cluster = spec.make(name, asked, like)
        cluster = replace(cluster, groups=tuple(sorted({str(folder) for folder in folders.values()})))
        spec.remember(cluster)  # first: whatever happens from here on, down knows what to look for
    try:
        amounts = groups.needed(asked)
        for controller in chosen:
            for node in cluster.node_names:
                groups.create(controller, folders[controller.name], node, amounts[controller.name])
        spec.write_hosts(cluster)
        network.create_switch(cluster)
        for node in cluster.node_names:
            network.create_node(cluster, node)
    except BaseException:
        down(cluster)
        raise
    return cluster


def check(asked: Shape) -> list[groups.Controller]:
    """Refuse what this host cannot provide, and return the controllers that are needed."""
    asked.check_shape()
    if (asked.nodes or 0) > spec.MOST_NODES:
        raise InputError(f"--nodes is {asked.nodes}: an emulated cluster has at most {spec.MOST_NODES}.")
    privilege.ensure()
    chosen = groups.choose(asked)
    if asked.latency:
        check_netem()
    return chosen


def check_netem() -> None:
    trial = f"{PREFIX}trial-{os.getpid()}"
    namespaces.create(trial)
    try:
        network.refuse_missing_netem(trial)
    finally:
        namespaces.remove(trial)


@dataclass(frozen=True)
class NodeState:
    node: str
    is_there: bool
    is_attached: bool = False
    processes: int = 0


def node_states(cluster: Cluster) -> list[NodeState]:
    """The state of its nodes."""
    there = namespaces.existing(cluster.namespace(""))
    return [
        NodeState(
            node,
            True,
            network.is_attached(cluster, node),
            len(namespaces.processes_in(cluster.namespace(node))),
        )
        if cluster.namespace(node) in there
        else NodeState(node, False)
        for node in cluster.node_names
    ]


def down(cluster: Cluster) -> None:
    """Remove its processes, namespaces with all that is in them, control groups, and the file that describes it."""
    end_processes(lambda: processes_of(cluster.namespaces, cluster.groups))
    for namespace in set(cluster.namespaces) & set(namespaces.existing(PREFIX)):
        namespaces.remove(namespace)
    for folder in cluster.groups:
        groups.remove(Path(folder))
    spec.forget(cluster.name)


def down_named(name: str) -> None:
    """Remove a cluster, even if all that is left of it is what carries its name."""
    try:
        cluster = spec.find_cluster(name)
    except spec.Damaged:
        down_damaged(name)
    else:
        down(cluster)


def down_damaged(name: str) -> None:
    """Remove a cluster by its name alone: its number of nodes and its control groups are not known any more."""
    part = re.compile(re.escape(f"{PREFIX}{name}") + r"-(switch|node[0-9]+)")  # lab's, and none of lab-2's
    places = [place for place in namespaces.existing(PREFIX) if part.fullmatch(place)]
    folders = {item.parent / f"{PREFIX}{name}" for item in groups.controllers().values()}
    end_processes(lambda: processes_of(places, map(str, folders)))
    for place in places:
        namespaces.remove(place)
    for folder in folders:
        groups.remove(folder)
    spec.forget(name)


def down_all() -> list[str]:
    """Remove every cluster, and what is left of those without a file. Returns the names of what was removed."""
    privilege.ensure()
    taken = spec.everyone()
    for cluster in taken:
        down(cluster)
    strays = namespaces.existing(PREFIX)
    parents = [item.parent for item in groups.controllers().values()]
    folders = {folder for parent in parents for folder in groups.folders_in(parent, PREFIX)}
    end_processes(lambda: processes_of(strays, map(str, folders)))
    for namespace in strays:
        namespaces.remove(namespace)
    for folder in folders:
        groups.remove(folder)
    unreadable = spec.names()
    for name in unreadable:
        spec.forget(name)
    return [*(cluster.name for cluster in taken), *unreadable, *strays, *(folder.name for folder in folders)]


def processes_of(places: Iterable[str], folders: Iterable[str]) -> set[int]:
    """Processes in these namespaces, or in groups in these folders: a process may be in one and not in the other."""
    found = {pid for place in places for pid in namespaces.processes_in(place)}
    found |= {pid for folder in folders for pid in groups.processes_in(Path(folder))}
    return {pid for pid in found if pid != os.getpid() and state(pid) not in (None, "Z")}


def end_processes(remaining: Callable[[], set[int]]) -> None:
    """End processes: with SIGTERM first, then with SIGKILL."""
    for number, patience in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GONE_SECONDS)):
        until = time.monotonic() + patience
        asked: set[int] = set()
        while running := remaining():
            for pid in running - asked:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            asked |= running
            if time.monotonic() > until:
                break
            time.sleep(0.02)


@contextmanager
def for_run(asked: Placement) -> Iterator[Cluster]:
    """The named cluster, or one that exists only during the block."""
    if asked.cluster:
        privilege.ensure()
        yield spec.find_cluster(asked.cluster)
        return
    remove_abandoned()
    cluster = up(f"{FOR_ONE_RUN}{os.getpid()}-{next(_numbers)}", asked)
    try:
        yield cluster
    finally:
        with signals_held():
            down(cluster)


def remove_abandoned() -> None:
    """Remove clusters made for runs whose command was killed outright."""
    for name in spec.names():
        owner = name.removeprefix(FOR_ONE_RUN).split("-")[0]
        if name.startswith(FOR_ONE_RUN) and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            with suppress(InputError):  # another command is doing the same
                down_named(name)
