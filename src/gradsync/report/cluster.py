"""An emulated cluster as tables: what it is, and what it really gives."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gradsync.cluster.gauge import Pair
from gradsync.cluster.lifecycle import NodeState
from gradsync.cluster.spec import Cluster
from gradsync.report.tables import NOTHING, plain_table


def status_table(cluster: Cluster, states: Sequence[NodeState]) -> Table:
    table = plain_table(f"{cluster.name}: {cluster}")
    for heading in ("node", "address", "link", "processes"):
        table.add_column(heading, justify="right" if heading == "processes" else "left")
    for state in states:
        link = "connected" if state.is_attached else "cut off" if state.is_there else "missing: take the cluster down"
        running = str(state.processes) if state.is_there else NOTHING
        table.add_row(state.node, cluster.address(state.node), link, running)
    return table


def probe_table(cluster: Cluster, pairs: Sequence[Pair], shares: Mapping[str, float]) -> Group:
    """The rate of every link, in Gbit/s, then what was asked beside what was got."""
    rates = plain_table(f"{cluster.name}: Gbit/s from row to column, and the share of a core of each node")
    rates.add_column("from")
    for name in cluster.node_names:
        rates.add_column(f"→ {name}", justify="right")
    rates.add_column("share", justify="right")
    measured = {(pair.source, pair.target): pair for pair in pairs}
    for source in cluster.node_names:
        texts = [
            f"{measured[source, target].bits_per_second / 1e9:.3f}" if source != target else NOTHING
            for target in cluster.node_names
        ]
        rates.add_row(source, *texts, f"{shares[source]:.2f}")
    return Group(rates, Text(), promises(cluster, pairs, shares))


def promises(cluster: Cluster, pairs: Sequence[Pair], shares: Mapping[str, float]) -> Table:
    table = plain_table("asked and got")
    for heading in ("", "asked", "got (median)", "furthest off"):
        table.add_column(heading, justify="left" if not heading else "right")
    shape = cluster.shape
    bits = [pair.bits_per_second / 1e9 for pair in pairs]
    asked_bits = shape.bits_per_second / 1e9 if shape.bits_per_second else None
    round_trips = [pair.round_trip * 1e3 for pair in pairs]
    asked_round_trip = 2e3 * shape.latency_seconds if shape.latency_seconds else None
    share = None if shape.cpus is None else min(shape.cpus, 1.0)  # the probe is one thread
    for name, unit, asked, got in (
        ("rate", "Gbit/s", asked_bits, bits),
        ("round trip", "ms", asked_round_trip, round_trips),
        ("share of a core", "", share, list(shares.values())),
    ):
        if got:
            wanted = NOTHING if asked is None else f"{asked:g} {unit}"
            table.add_row(name, wanted, f"{statistics.median(got):.3f} {unit}", furthest(asked, got))
    if shape.memory_bytes:
        table.add_row("memory", str(shape.memory), "set as a limit", NOTHING)
    return table


def furthest(asked: float | None, got: Sequence[float]) -> str:
    if not asked:
        return NOTHING
    return f"{max((value / asked - 1 for value in got), key=abs):+.1%}"
