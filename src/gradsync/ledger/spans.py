"""The one place where the time of a step is split: what each rank did, from when to when. Arithmetic only.

On the training thread, one span after another without a gap:

    data  copy  forward  backward  optimizer    the phases of those names
    wait   in a collective, until the ranks it depends on have arrived; for a server's answer until it begins
    wire   from then to the end of the collective, or of the message
    other  everything else: averaging, packing, clearing gradients, writing the record

In the phase ``drain`` backward has computed everything and waits for collectives in the background: that is wire
while one of them has all the ranks it needs, else wait while one is in flight, else backward. The collectives in the
background are on lanes of their own, each as wait and wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gradsync.ledger.stamps import Arrival, Collective, Step, arrivals

TRAINING = 0  # lane of the training thread; those of collectives in the background follow

OWN_PARTS = ("data", "copy", "forward", "backward", "optimizer", "other")  # what a rank does by itself
PART_OF_PHASE = {"drain": "backward"}  # a phase that a strategy defines itself counts as other

Interval = tuple[float, float]
Piece = tuple[str, float, float]


class Span(NamedTuple):
    rank: int
    lane: int
    part: str
    start: float
    end: float

    @property
    def background(self) -> bool:
        """Whether it is a collective that ran concurrently with the training thread."""
        return self.lane != TRAINING


def spans(step: Sequence[Step]) -> list[Span]:
    """One step of all ranks: for each of them the training thread, then the lanes in the background."""
    return [
        Span(rank, lane, *piece)
        for rank, (own, there) in enumerate(zip(step, arrivals(step), strict=True))
        for lane, piece in (*((TRAINING, piece) for piece in on_thread(own, there)), *in_background(own, there))
    ]


def on_thread(step: Step, there: Sequence[Arrival]) -> list[Piece]:
    """The phases, overlaid with the waiting in ``drain``, and then with the collectives that blocked the thread."""
    calls = list(zip(step.collectives, there, strict=True))
    background = [call for call in calls if call[0].overlapped]
    found = [(part_of(name), start, end) for name, start, end in step.phases if end > start]
    for name, start, end in step.phases if background else ():
        if name == "drain":
            found = laid_over(found, drained(background, start, end))
    blocking = sorted((call for call in calls if not call[0].overlapped), key=lambda call: call[0].start)
    pieces: list[Piece] = []
    reached = step.begin
    for item, arrival in blocking:
        pieces += split(item, arrival, max(reached, step.begin), step.end)
        reached = max(reached, item.end)
    return laid_over(found, pieces) if pieces else found


def part_of(phase: str) -> str:
    """The part of the ledger a phase counts as."""
    return PART_OF_PHASE.get(phase, phase if phase in OWN_PARTS else "other")


def drained(calls: Sequence[tuple[Collective, Arrival]], start: float, end: float) -> list[Piece]:
    under_way = merged((max(item.start, start), min(item.end, end)) for item, _ in calls)
    moving = merged((max(item.start, arrival.time, start), min(item.end, end)) for item, arrival in calls)
    return laid_over([("wait", *each) for each in under_way], [("wire", *each) for each in moving])


def in_background(step: Step, there: Sequence[Arrival]) -> Iterator[tuple[int, Piece]]:
    for item, arrival, lane in zip(step.collectives, there, lanes(step), strict=True):
        if item.overlapped:
            for piece in split(item, arrival, step.begin, step.end):
                yield lane, piece


def lanes(step: Step) -> list[int]:
    """The lane of each collective: those in the background that overlap in time get lanes of their own."""
    found = []
    free_from: list[float] = []
    for item in step.collectives:
        if not item.overlapped:
            found.append(TRAINING)
            continue
        lane = next((index for index, free in enumerate(free_from) if free <= item.start), len(free_from))
        free_from[lane : lane + 1] = [item.end]
        found.append(TRAINING + 1 + lane)
    return found


def split(item: Collective, arrival: Arrival, begin: float, end: float) -> list[Piece]:
    """A collective as wait and wire, as far as it lies between ``begin`` and ``end``."""
    start, stop = max(item.start, begin), min(item.end, end)
    middle = min(max(arrival.time, start), stop)
    return [piece for piece in (("wait", start, middle), ("wire", middle, stop)) if piece[2] > piece[1]]


def laid_over(under: Sequence[Piece], over: Sequence[Piece]) -> list[Piece]:
    """Both are in order and without overlap. Where there is a piece of ``over``, it replaces what is under it."""
    found: list[Piece] = []
    waiting = list(reversed(over))
    reached = float("-inf")
    for part, start, end in under:
        start = max(start, reached)
        while waiting and waiting[-1][1] < end:
            upper = waiting.pop()
            if upper[1] > start:
                found.append((part, start, upper[1]))
            found.append(upper)
            start = reached = upper[2]
        if end > start:
            found.append((part, start, end))
    return found


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Their union, in order; empty and reversed intervals are dropped."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def covered(intervals: Iterable[Interval]) -> float:
    """The length of the union."""
    return sum(end - start for start, end in merged(intervals))
