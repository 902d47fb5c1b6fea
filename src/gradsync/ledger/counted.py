"""One rank's bytes and its share of the host, from its rows. Arithmetic only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradsync.ledger.rates import rate
from gradsync.record import RankRecord
from gradsync.record.rows import HostRow
from gradsync.record.summaries import ByteCounts, Network, Payload


def network(record: RankRecord) -> Network | None:
    """What the kernel counted from the first step to the last, with the closed form of the strategy."""
    counts = [traffic(row) for row in (*record.hosts[:1], *record.hosts[-1:])]
    if len(record.hosts) < 2 or counts[0] is None or counts[1] is None:
        return None
    sent = counts[1].sent_bytes - counts[0].sent_bytes
    received = counts[1].received_bytes - counts[0].received_bytes
    if min(sent, received) < 0:  # the samples are not of the same counter
        return None
    # A rank that was killed has no final sample: only the steps that ended before its last one are counted.
    start = record.start
    units = record.pushes if start and start["role"] == "server" else record.steps
    ends = [row["begin"] + row["seconds"] for row in units if "begin" in row]
    steps = sum(end <= record.hosts[-1]["time"] for end in ends)
    per_step = start.get("wire_bytes") if start else None
    expected = ByteCounts(sent_bytes=per_step[0] * steps, received_bytes=per_step[1] * steps) if per_step else None
    return Network(
        sent_bytes=sent,
        received_bytes=received,
        steps=steps,
        source=(start["network_source"] if start else None) or "",
        closed_form=expected,
    )


def traffic(row: HostRow) -> ByteCounts | None:
    sent, received = row["sent_bytes"], row["received_bytes"]
    return None if sent is None or received is None else ByteCounts(sent_bytes=sent, received_bytes=received)


def payload(record: RankRecord) -> Payload | None:
    """What the strategy handed to collectives and took from them, by kind: during training, and before it."""
    measured = [row["payload"] for row in record.steps if "payload" in row]
    if not measured or record.start is None:
        return None
    kinds = by_kind((kind, *bytes_) for each in measured for kind, bytes_ in each.items())
    return Payload(
        sent_bytes=sum(each.sent_bytes for each in kinds.values()),
        received_bytes=sum(each.received_bytes for each in kinds.values()),
        kinds=kinds,
        setup=by_kind(record.start["setup_payload"]),
    )


def by_kind(items: Iterable[tuple[str, float, float]]) -> dict[str, ByteCounts]:
    kinds: dict[str, ByteCounts] = {}
    for kind, sent, received in items:
        total = kinds.setdefault(kind, ByteCounts(sent_bytes=0, received_bytes=0))
        total.sent_bytes += sent
        total.received_bytes += received
    return kinds


def cpu_percent(record: RankRecord) -> float | None:
    """100 is one core."""
    return percent(record.hosts, "cpu_seconds")


def percent(samples: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Growth of a count of seconds, in percent of the time that passed."""
    growth = rate(samples[0], samples[-1], name) if samples else None
    return None if growth is None else growth * 100


def without_core(record: RankRecord) -> float | None:
    """Runnable but not scheduled, in percent of the time. This is known even of a run without other measurements.

    On a node with a share of the cores only the time within that share counts: a node with half a core that runs half
    of the time in which it is runnable lacks nothing, nor does one whose other threads have used up the half.
    """
    ends = [row["cores"] for row in (record.start, record.end) if row and "cores" in row]
    samples: Sequence[Mapping[str, Any]] = record.hosts if len(record.hosts) > 1 else ends
    if len(samples) < 2:
        return None
    ran, waited = percent(samples, "run_seconds"), percent(samples, "run_delay_seconds")
    share = record.start.get("core_share") if record.start else None
    if waited is None or ran is None or share is None or record.start is None:
        return waited
    used = (percent(samples, "cpu_seconds") or 0.0) / record.start["threads"]
    return max(0.0, share * (ran + waited) - max(ran, used))


def gpu_utilization(record: RankRecord) -> float | None:
    used = [value for row in record.hosts if (value := row.get("gpu_utilization")) is not None]
    return sum(used) / len(used) if used else None
