"""Whose link is slower than the others', from what the kernel says of every connection. Arithmetic only.

A rank that is far slower to send to, and to hear from, than others are among each other sits behind a slow link. It
takes three: between two, nobody can say whose end it is.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from gradsync.meter.stragglers import LINK, SECONDS, SHARE, Straggler
from gradsync.record import Row

FEWEST_BYTES = 1_000_000  # on one connection: less fits into buffers and says nothing about its rate
SHORTEST = 0.01  # seconds under way, likewise
MUCH_SLOWER = 0.5  # of what the others have
MUCH_LATER = 3.0  # times what the others need for there and back
TIME_SLICE = 5e-3  # seconds a busy host may let a process wait: so much is chance


def find(ranks: Sequence[Sequence[Row]], steps: int, seconds_per_step: float, messages: float) -> Straggler | None:
    """``messages``: how often in a step everybody waits for everybody."""
    for found in (slow(ranks, steps), late(ranks, messages)):
        if found and found[1] >= max(SHARE * seconds_per_step, SECONDS):
            rank, seconds = found
            return Straggler(rank, steps, steps, seconds, LINK)
    return None


def slow(ranks: Sequence[Sequence[Row]], steps: int) -> tuple[int, float] | None:
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


def connections(ranks: Sequence[Sequence[Row]]) -> dict[tuple[int, int], tuple[float, float]]:
    """From one rank to another: bytes sent while training, and the seconds these were under way."""
    ranks_at: dict[str, list[int]] = defaultdict(list)
    for rank, rows in enumerate(ranks):
        if address := next((row.get("address") for row in rows if row["kind"] == "start"), None):
            ranks_at[address].append(rank)
    found = {}
    for source, rows in enumerate(ranks):
        noted = [row["links"] for row in rows if row["kind"] == "links"]
        if len(noted) < 2:
            continue
        for address, (sent, busy) in noted[-1].items():
            before = noted[0].get(address, (0.0, 0.0))
            targets = ranks_at.get(address, [])
            if len(targets) == 1 and sent - before[0] >= FEWEST_BYTES and busy - before[1] >= SHORTEST:
                found[source, targets[0]] = (sent - before[0], busy - before[1])
    return found


def late(ranks: Sequence[Sequence[Row]], messages: float) -> tuple[int, float] | None:
    """The rank to which, and from which, a byte takes far longer; each rank has noted the way to its successor."""
    ways = [next((row["round_trip"] for row in rows if row["kind"] == "round-trip"), None) for rows in ranks]
    trips = [way for way in ways if way is not None]
    if len(trips) < max(3, len(ways)):
        return None
    for rank in range(len(trips)):
        own = min(trips[rank - 1], trips[rank])
        others = [trip for other, trip in enumerate(trips) if other not in (rank, (rank - 1) % len(trips))]
        if own > max(MUCH_LATER * statistics.median(others), statistics.median(others) + TIME_SLICE):
            return rank, (own - statistics.median(others)) / 2 * messages
    return None
