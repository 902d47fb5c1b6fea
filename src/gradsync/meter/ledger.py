"""From stamps to a ledger: where each step's time went, adding up to its wall time. Arithmetic only.

The parts of a step on the training thread:

    data  copy  forward  backward  optimizer    the phases of those names
    wait   from my arrival at a collective to the last rank's arrival; for a server's answer until it begins to come
    wire   from then to the end of the collective, or of the message
    other  everything else: averaging, packing, clearing gradients, writing the record

Beside them ``hidden_comm``: communication that ran while the training thread computed. wait + wire + hidden_comm is
the time in which a collective was under way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

PARTS = ("data", "copy", "forward", "backward", "wait", "wire", "optimizer", "other")
HIDDEN = "hidden_comm"
OWN_PARTS = ("data", "copy", "forward", "backward", "optimizer", "other")  # what a rank does by itself

# Phases that are not parts. drain: backward has computed everything and waits for what is still on its way.
PART_OF_PHASE = {"agree": "other", "drain": "backward"}

POINT_TO_POINT = ("send", "receive")  # have no number: the other end knows them by another name

Interval = tuple[float, float]
Ledger = dict[str, float]


class Collective(NamedTuple):
    """One rank's view of one collective; its number is the same on every rank. None: point to point."""

    number: int | None
    operation: str
    kind: str
    sent: int
    received: int
    start: float
    end: float
    overlapped: bool


@dataclass(frozen=True)
class Step:
    """One rank's step on the clock all ranks share."""

    begin: float
    end: float
    phases: list[tuple[str, float, float]]
    collectives: list[Collective]

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def read_step(row: dict[str, Any], clock_offset: float = 0.0) -> Step:
    """A step row of the record. ``clock_offset``: this rank's clock minus rank 0's."""
    begin = row["begin"] - clock_offset
    end = begin + row["seconds"]
    names = [name for name, _ in row["phases"]]
    bounds = [*(begin + offset for _, offset in row["phases"]), end]
    numbers = itertools.count(row["first_collective"])
    collectives = [
        Collective(
            None if operation in POINT_TO_POINT else next(numbers),
            *(operation, kind, sent, received, begin + start, begin + stop, bool(overlapped)),
        )
        for operation, kind, sent, received, start, stop, overlapped in row["collectives"]
    ]
    phases = [(name, start, stop) for name, (start, stop) in zip(names, pairwise(bounds), strict=True)]
    return Step(begin, end, phases, collectives)


def last_arrivals(ranks: Iterable[Step]) -> dict[int, float]:
    """When the last rank came to each collective of one step: there the wire begins."""
    last: dict[int, float] = {}
    for step in ranks:
        for item in step.collectives:
            if item.number is not None:
                last[item.number] = max(item.start, last.get(item.number, item.start))
    return last


def arrival(item: Collective, arrivals: dict[int, float]) -> float:
    """When all were there: never before this rank was. A server sends its header when its answer is ready."""
    if item.number is None:
        return item.end if (item.operation, item.kind) == ("receive", "control") else item.start
    return max(item.start, arrivals.get(item.number, item.start))


def part_of(phase: str) -> str:
    """The part of the ledger a phase counts as; a strategy may have phases of its own."""
    return PART_OF_PHASE.get(phase, phase if phase in PARTS else "other")


def step_ledger(step: Step, arrivals: dict[int, float]) -> Ledger:
    """One rank's step, part by part, and hidden_comm."""
    parts = dict.fromkeys(PARTS, 0.0)
    for name, start, end in step.phases:
        parts[part_of(name)] += end - start

    blocking = [item for item in step.collectives if not item.overlapped]
    overlapped = [item for item in step.collectives if item.overlapped]
    phase = iter(step.phases)
    name, _, end = next(phase)
    for item in blocking:
        while item.start >= end and end < step.end:
            name, _, end = next(phase)
        wire = max(0.0, item.end - arrival(item, arrivals))
        take(parts, name, item.end - item.start, wire)
    exposed = sum(item.end - item.start for item in blocking)

    for name, start, end in step.phases if overlapped else ():
        if name == "drain":
            busy = covered(clipped([(item.start, item.end) for item in overlapped], start, end))
            arrived = [(arrival(item, arrivals), item.end) for item in overlapped]
            take(parts, name, busy, covered(clipped(arrived, start, end)))
            exposed += busy

    under_way = covered([(item.start, item.end) for item in step.collectives])
    return parts | {HIDDEN: max(0.0, under_way - exposed)}


def take(parts: Ledger, phase: str, seconds: float, wire: float) -> None:
    """Move communication out of the phase it happened in."""
    parts[part_of(phase)] -= seconds
    parts["wire"] += wire
    parts["wait"] += seconds - wire


def clipped(intervals: Iterable[Interval], start: float, end: float) -> list[Interval]:
    return [(max(a, start), min(b, end)) for a, b in intervals]


def covered(intervals: Iterable[Interval]) -> float:
    """The length of the union; empty and reversed intervals count nothing."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        start = max(start, reached)
        if end > start:
            total += end - start
            reached = end
    return total


def ledgers(ranks: Sequence[Step]) -> list[Ledger]:
    """The ledger of one step for every rank of it."""
    arrivals = last_arrivals(ranks)
    return [step_ledger(step, arrivals) for step in ranks]


def mean(items: Sequence[Ledger]) -> Ledger | None:
    if not items:
        return None
    return {name: sum(item[name] for item in items) / len(items) for name in (*PARTS, HIDDEN)}
