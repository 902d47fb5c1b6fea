"""A step with a rank's timestamps, and when the ranks it waited for arrived at its collectives. Arithmetic only."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from gradsync.record.rows import StepRow

IN_SUBGROUP = "in a subgroup"
"""A collective of some of the ranks, seen in a script that is not ours; the record does not name these ranks."""

POINT_TO_POINT = ("send", "receive", IN_SUBGROUP)  # these have no number: not every rank records them

TO_ROOT = ("gather", "reduce")
FROM_ROOT = ("broadcast", "scatter")
EXCHANGE = "exchange"


class Collective(NamedTuple):
    """One rank's view of one collective; its number is the same on every rank. None: point to point."""

    number: int | None
    operation: str
    kind: str
    sent: float
    received: float
    start: float
    end: float
    overlapped: bool


class Arrival(NamedTuple):
    """From ``time`` on a collective could move bytes; ``rank`` was the last to arrive of those it needed."""

    time: float
    rank: int


@dataclass(frozen=True)
class Step:
    """One rank's step on the clock all ranks share. Its phases follow each other without a gap."""

    begin: float
    end: float
    phases: list[tuple[str, float, float]]
    collectives: list[Collective]

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def read_step(row: StepRow, clock_offset: float = 0.0) -> Step:
    """A step row of the record. ``clock_offset``: this rank's clock minus rank 0's."""
    begin = row["begin"] - clock_offset
    end = begin + row["seconds"]
    numbers = itertools.count(row["first_collective"])
    collectives = [
        Collective(
            None if operation in POINT_TO_POINT else next(numbers),
            *(operation, kind, sent, received, begin + start, begin + stop, bool(overlapped)),
        )
        for operation, kind, sent, received, start, stop, overlapped in row["collectives"]
    ]
    return Step(begin, end, phases_of(row, begin, end), collectives)


def phases_of(row: StepRow, begin: float, end: float) -> list[tuple[str, float, float]]:
    """From the beginning of the step to its end, whatever was recorded."""
    names, bounds = [], []
    if row["phases"][0][1] > 0:
        names, bounds = ["other"], [begin]
    reached = begin
    for name, offset in row["phases"]:
        reached = min(max(begin + offset, reached), end)
        names.append(name)
        bounds.append(reached)
    pairs = pairwise([*bounds, end])
    return [(name, start, stop) for name, (start, stop) in zip(names, pairs, strict=True)]


def arrivals(ranks: Sequence[Step]) -> list[list[Arrival]]:
    """For every rank and each of its collectives in one step: when it and the ranks it depends on had arrived.

    1. All-to-all: every rank depends on every other.
    2. Rooted: the root depends on all others, and each of them on the root alone; in a reduce on all others, as the
       sums are made along a ring or a tree. A rank that only sends waited for none that arrived after it was done.
    3. Exchange: every rank depends on its neighbours in the ring, which the record does not name; it waited for none
       that arrived after it was done.
    4. Point to point: a server sends its header when its answer is ready. Nothing else is known of the other end.
    """
    found = [[Arrival(item.start, rank) for item in step.collectives] for rank, step in enumerate(ranks)]
    together: dict[int, list[tuple[int, int, Collective]]] = defaultdict(list)
    for rank, step in enumerate(ranks):
        for place, item in enumerate(step.collectives):
            if item.number is not None:
                together[item.number].append((rank, place, item))
            elif (item.operation, item.kind) == ("receive", "control"):
                found[rank][place] = Arrival(item.end, rank)
    for calls in together.values():
        root = root_of([(rank, item) for rank, _, item in calls])
        last = max(Arrival(item.start, rank) for rank, _, item in calls)
        for rank, place, item in calls:
            if root is None and item.operation != EXCHANGE:
                found[rank][place] = last
                continue
            only_sends = root is not None and (rank == root) == (item.operation in FROM_ROOT)
            may_end_first = only_sends or item.operation == EXCHANGE
            depends_on_all = item.operation in ("reduce", EXCHANGE)
            needed = [
                Arrival(other.start, peer)
                for peer, _, other in calls
                if (depends_on_all or root in (rank, peer)) and not (may_end_first and other.start > item.end)
            ]
            found[rank][place] = max([found[rank][place], *needed])
    return found


def root_of(calls: Sequence[tuple[int, Collective]]) -> int | None:
    """The rank that alone receives, or alone sends; None if the operation has none, or nothing was moved."""
    operations = {item.operation for _, item in calls}
    if operations <= set(TO_ROOT):
        roots = [rank for rank, item in calls if not item.sent]
    elif operations <= set(FROM_ROOT):
        roots = [rank for rank, item in calls if not item.received]
    else:
        return None
    return roots[0] if len(roots) == 1 else None
