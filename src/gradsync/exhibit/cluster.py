"""An emulated cluster: its nodes, and what its links and CPU shares really provide."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gradsync.cluster.gauge import Pair
from gradsync.cluster.lifecycle import NodeState
from gradsync.cluster.spec import Cluster
from gradsync.exhibit.form import Column, Section, Table
from gradsync.figures.value import Value


def status_table(cluster: Cluster, states: Sequence[NodeState]) -> Table:
    columns = [Column(name) for name in ("node", "address", "link", "processes")]
    rows: list[list[Value]] = []
    for state in states:
        link = "connected" if state.is_attached else "cut off" if state.is_there else "missing: take the cluster down"
        running = state.processes if state.is_there else None
        rows.append([state.node, cluster.address(state.node), link, running])
    return Table(f"{cluster.name}: {cluster}", columns, rows)


def gauge_section(cluster: Cluster, pairs: Sequence[Pair], shares: Mapping[str, float]) -> Section:
    """The rate of every link, then what was requested against what was measured."""
    return Section(cluster.name, [rates_table(cluster, pairs, shares), promises_table(cluster, pairs, shares)])


def rates_table(cluster: Cluster, pairs: Sequence[Pair], shares: Mapping[str, float]) -> Table:
    columns = [
        Column("from"),
        *(Column(f"to {name}", "Gbit/s", ".3f") for name in cluster.node_names),
        Column("share of a core", "", ".2f"),
    ]
    measured = {(pair.source, pair.target): pair for pair in pairs}
    rows: list[list[Value]] = []
    for source in cluster.node_names:
        rates = [
            measured[source, target].bits_per_second / 1e9 if source != target else None
            for target in cluster.node_names
        ]
        rows.append([source, *rates, shares[source]])
    return Table(f"{cluster.name}: rate of every link", columns, rows)


def promises_table(cluster: Cluster, pairs: Sequence[Pair], shares: Mapping[str, float]) -> Table:
    columns = [
        Column(""),
        Column("requested"),
        Column("measured, median", "", ".3f"),
        Column("largest deviation", "", "+.1%"),
    ]
    shape = cluster.shape
    asked_bits = shape.bits_per_second / 1e9 if shape.bits_per_second else None
    asked_round_trip = 2e3 * shape.latency_seconds if shape.latency_seconds else None
    share = None if shape.cpus is None else min(shape.cpus, 1.0)  # the gauge is one thread
    rows: list[list[Value]] = []
    for name, asked, got in (
        ("rate, Gbit/s", asked_bits, [pair.bits_per_second / 1e9 for pair in pairs]),
        ("round trip, ms", asked_round_trip, [pair.round_trip * 1e3 for pair in pairs]),
        ("share of a core", share, list(shares.values())),
    ):
        if got:
            wanted = None if asked is None else f"{asked:g}"
            rows.append([name, wanted, statistics.median(got), furthest(asked, got)])
    if shape.memory_bytes:
        rows.append(["memory limit", str(shape.memory), None, None])
    return Table(f"{cluster.name}: requested and measured", columns, rows)


def furthest(asked: float | None, got: Sequence[float]) -> float | None:
    return max((value / asked - 1 for value in got), key=abs) if asked else None
