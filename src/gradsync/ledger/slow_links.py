"""Which rank's link is slower than the others', from the kernel's counters of every connection. Arithmetic only.

A rank that is far slower to send to, and to receive from, than the others are among themselves is behind a slow link.
This takes three ranks: between two, the slow end cannot be identified.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from gradsync.ledger.stragglers import LINK, SECONDS, SHARE
from gradsync.record import RankRecord
from gradsync.record.summaries import StragglerFound

FEWEST_BYTES = 1_000_000  # on one connection: less fits into buffers and says nothing about its rate
SHORTEST = 0.01  # seconds in flight, for the same reason
MUCH_SLOWER = 0.5  # times the rate of the others
MUCH_LATER = 3.0  # times the round trip of the others
TIME_SLICE = 5e-3  # seconds a busy host may let a process wait: a difference up to this is chance


def slow_link(
    ranks: Sequence[RankRecord], steps: int, seconds_per_step: float, messages: float
) -> StragglerFound | None:
    """``messages``: how often in a step all ranks wait for each other."""
    for found in (slow(ranks, steps), late(ranks, messages)):
        if found and found[1] >= max(SHARE * seconds_per_step, SECONDS):
            rank, seconds = found
            return StragglerFound(rank=rank, late_steps=steps, steps=steps, seconds=seconds, cause=LINK)
    return None


def slow(ranks: Sequence[RankRecord], steps: int) -> tuple[int, float] | None:
    """The rank whose fastest connection is far slower than the others', and what that costs in a step."""
    best: dict[int, float] = defaultdict(float)
    busiest: dict[int, float] = defaultdict(float)
    for (source, target), (sent, busy) in connections(ranks).items():
        for rank in (source, target):
            best[rank] = max(best[rank], sent / busy)
            busiest[rank] = max(busiest[rank], busy)
    if len(best) < 3 or not steps:
        return None
    rank = min(best, key=lambda rank: best[rank])
    others = statistics.median(rate for other, rate in best.items() if other != rank)
    if best[rank] > MUCH_SLOWER * others:
        return None
    return rank, busiest[rank] * (1 - best[rank] / others) / steps


def connections(ranks: Sequence[RankRecord]) -> dict[tuple[int, int], tuple[float, float]]:
    """From one rank to another: bytes sent while training, and the seconds these were in flight."""
    ranks_at: dict[str, list[int]] = defaultdict(list)
    for rank, record in enumerate(ranks):
        if record.start and (address := record.start.get("address")):
            ranks_at[address].append(rank)
    found = {}
    for source, record in enumerate(ranks):
        noted = [row["links"] for row in record.links]
        if len(noted) < 2:
            continue
        for address, (sent, busy) in noted[-1].items():
            before = noted[0].get(address, (0.0, 0.0))
            targets = ranks_at.get(address, [])
            if len(targets) == 1 and sent - before[0] >= FEWEST_BYTES and busy - before[1] >= SHORTEST:
                found[source, targets[0]] = (sent - before[0], busy - before[1])
    return found


def late(ranks: Sequence[RankRecord], messages: float) -> tuple[int, float] | None:
    """The rank with far longer round trips to both neighbours; each rank has recorded the one to its successor."""
    ways = [record.round_trip["round_trip"] if record.round_trip else None for record in ranks]
    trips = [way for way in ways if way is not None]
    if len(trips) < max(3, len(ways)):
        return None
    for rank in range(len(trips)):
        own = min(trips[rank - 1], trips[rank])
        others = [trip for other, trip in enumerate(trips) if other not in (rank, (rank - 1) % len(trips))]
        if own > max(MUCH_LATER * statistics.median(others), statistics.median(others) + TIME_SLICE):
            return rank, (own - statistics.median(others)) / 2 * messages
    return None
