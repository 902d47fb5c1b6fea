"""One rank's bytes and its share of the host, from its rows. Arithmetic only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gradsync.record import Row

NETWORK = ("sent_bytes", "received_bytes")


def figures(rows: list[Row]) -> dict[str, Any]:
    """Everything measured beside the ledger; None where it was not."""
    host = [row for row in rows if row["kind"] == "host"]
    clocks = [row for row in rows if row["kind"] == "clock"]
    found = {
        "network": network(rows, host),
        "payload": payload(rows),
        "cpu_percent": percent(host, "cpu_seconds"),
        "run_delay_percent": without_core(rows),
        "memory_bytes": host[-1]["memory_bytes"] if host else None,
        "peak_memory_bytes": host[-1]["peak_memory_bytes"] if host else None,
        "clock": [{name: row[name] for name in ("time", "offset", "bound")} for row in clocks],
    }
    if host and "gpu_peak_memory_bytes" in host[-1]:
        used = [value for row in host if (value := row.get("gpu_utilization")) is not None]
        found["gpu_peak_memory_bytes"] = host[-1]["gpu_peak_memory_bytes"]
        found["gpu_utilization"] = sum(used) / len(used) if used else None
    return found


def network(rows: list[Row], host: list[Row]) -> dict[str, Any] | None:
    """What the kernel counted from the first step to the last, beside the closed form of the strategy."""
    start = next((row for row in rows if row["kind"] == "start"), {})
    if len(host) < 2 or any(row[name] is None for row in (host[0], host[-1]) for name in NETWORK):
        return None
    # A rank that was killed has no last sample: only the steps before the last one it has are in the count.
    unit = "push" if start.get("role") == "server" else "step"
    ends = [row["begin"] + row["seconds"] for row in rows if row["kind"] == unit and "begin" in row]
    steps = sum(end <= host[-1]["time"] for end in ends)
    counted = {name: host[-1][name] - host[0][name] for name in NETWORK}
    if min(counted.values()) < 0:  # it was not one counter
        return None
    per_step = start.get("wire_bytes")
    expected = {name: each * steps for name, each in zip(NETWORK, per_step, strict=True)} if per_step else None
    return {
        **counted,
        "steps": steps,
        "source": start.get("network_source") or "",
        "closed_form": expected,
        "overhead_percent": overhead(sum(counted.values()), sum(expected.values())) if expected else None,
    }


def overhead(counted: float, expected: float) -> float | None:
    return (counted / expected - 1) * 100 if expected else None


def payload(rows: list[Row]) -> dict[str, Any] | None:
    """What the strategy handed to collectives and took from them, by kind: while training, and before it."""
    measured = [row for row in rows if row["kind"] == "step" and "payload" in row]
    start = next((row for row in rows if row["kind"] == "start"), None)
    if not measured or start is None:
        return None
    kinds = by_kind((kind, *bytes_) for row in measured for kind, bytes_ in row["payload"].items())
    return {
        **{name: sum(kind[name] for kind in kinds.values()) for name in NETWORK},
        "kinds": kinds,
        "setup": by_kind(start["setup_payload"]),
    }


def by_kind(items: Iterable[Sequence[Any]]) -> dict[str, dict[str, int]]:
    kinds: dict[str, dict[str, int]] = {}
    for kind, sent, received in items:
        total = kinds.setdefault(kind, dict.fromkeys(NETWORK, 0))
        total["sent_bytes"] += sent
        total["received_bytes"] += received
    return kinds


def percent(host: list[Row], name: str) -> float | None:
    """Growth of a count of seconds, in percent of the time that passed."""
    growth = rate(host[0], host[-1], name) if host else None
    return None if growth is None else growth * 100


def without_core(rows: list[Row]) -> float | None:
    """Ready but not running, in percent of the time. Also known of a run that was not measured otherwise.

    On a node with a share of the cores it counts as far as that share goes: a node with half a core that runs half of
    the time it wants to lacks nothing, nor does one whose other threads have used the half up.
    """
    samples = [row for row in rows if row["kind"] == "host"]
    samples = samples if len(samples) > 1 else [row["cores"] for row in rows if "cores" in row]
    if len(samples) < 2:
        return None
    ran, waited = percent(samples, "run_seconds"), percent(samples, "run_delay_seconds")
    start = next((row for row in rows if row["kind"] == "start"), {})
    share = start.get("core_share")
    if waited is None or ran is None or share is None:
        return waited
    used = (percent(samples, "cpu_seconds") or 0.0) / start["threads"]
    return max(0.0, share * (ran + waited) - max(ran, used))


def rate(before: Row, after: Row, name: str) -> float | None:
    """Growth of a count per second between two host samples; None if it was not counted, or no time passed."""
    passed = after["time"] - before["time"]
    if passed <= 0 or before.get(name) is None or after.get(name) is None:
        return None
    return (after[name] - before[name]) / passed
