"""The scalars of all ranks in one run, for trackers that have no folder per rank."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from math import ceil

from gradsync.live.trackers.base import Point, Scalars

EVERY_RANK = ("train/seconds_per_step", "ledger/", "straggler/", "network/", "host/")
"""In which ranks differ, so that they are logged for each of them."""

ALWAYS = ("test/", "straggler/rank")  # never left out
MOST_VALUES = 2_000  # a second; MLflow's file store takes 0.2 ms for each
BURST = 20_000  # before steps are left out: a short run is logged in full

Steps = list[tuple[int, Scalars]]


class OneRun:
    """Rank 0's scalars under their own names, and those in which ranks differ also as rank-1/...

    Of runs with many short steps, steps are left out in equal distances: no more values come than a tracker can take.
    """

    def __init__(self) -> None:
        self._allowed = float(BURST)
        self._time = time.monotonic()

    def steps(self, points: Iterable[Point]) -> Steps:
        found = merged(points)
        now = time.monotonic()
        self._allowed = min(self._allowed + (now - self._time) * MOST_VALUES, BURST)
        self._time = now
        found = thinned(found, self._allowed)
        self._allowed -= count(found)
        return found


def merged(points: Iterable[Point]) -> Steps:
    """One item for each step, whatever the number of ranks."""
    steps: dict[int, Scalars] = {}
    for rank, step, values in points:
        own = {f"rank-{rank}/{tag}": value for tag, value in values.items() if tag.startswith(EVERY_RANK)}
        steps.setdefault(step, {}).update(own if rank else values)
    return [(step, values) for step, values in steps.items() if values]


def thinned(steps: Sequence[tuple[int, Scalars]], most: float) -> Steps:
    """Every second step, every third, ... with so many values in all; also the last one, and every test."""
    every = ceil(count(steps) / max(most, 1.0))
    return [
        (step, values)
        for place, (step, values) in enumerate(steps, start=1)
        if place % max(every, 1) == 0 or place == len(steps) or any(tag.startswith(ALWAYS) for tag in values)
    ]


def count(steps: Sequence[tuple[int, Scalars]]) -> int:
    return sum(len(values) for _, values in steps)
