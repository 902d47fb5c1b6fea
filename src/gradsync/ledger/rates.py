"""Throughput, and how fast the counters of the host have grown: CPU seconds, network bytes. Arithmetic only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from gradsync.record.rows import HostRow, StepRow

SHORTEST = 0.5  # seconds between two samples: the last two may be milliseconds apart, which gives no rate


def samples_per_second(ranks: Sequence[Sequence[StepRow]]) -> float | None:
    """Each rank's samples in the timed steps per second of its own time, added up: ranks may differ in speed.

    None where the samples of a step are not known.
    """
    if not all("samples" in row for rows in ranks for row in rows):
        return None
    each = [sum(row["samples"] for row in rows) / sum(row["seconds"] for row in rows) for rows in ranks if rows]
    return sum(each) if each else None


def rate(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> float | None:
    """Growth of a count per second between two host samples; None if it was not counted, or no time passed."""
    passed = after["time"] - before["time"]
    if passed <= 0 or before.get(name) is None or after.get(name) is None:
        return None
    return (after[name] - before[name]) / passed


def rates(hosts: Sequence[HostRow], steps: Sequence[StepRow], name: str) -> list[tuple[float, float]]:
    """Pairs of a time, by this rank's own clock, and a count's growth per second until then, over a step at least.

    A step computes and then sends: bytes within a part of it say more about that part than about the rate.
    """
    if len(hosts) < 2:
        return []
    kept, ahead = [hosts[0]], 0
    timed = [row for row in steps if "begin" in row]
    longest = 0.0
    for row in hosts[1:]:
        while ahead < len(timed) and timed[ahead]["begin"] < row["time"]:
            longest = max(longest, timed[ahead]["seconds"])
            ahead += 1
        if row["time"] - kept[-1]["time"] >= max(longest, SHORTEST):
            kept.append(row)
            longest = timed[ahead - 1]["seconds"] if ahead else 0.0  # this step may still be running
    if len(kept) > 1:
        kept[-1] = hosts[-1]  # with the samples that were left over
    found = ((after["time"], rate(before, after, name)) for before, after in pairwise(kept))
    return [(time, growth) for time, growth in found if growth is not None]
