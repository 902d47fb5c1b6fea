"""The steps of all ranks on one clock, each given once every rank has finished it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gradsync.ledger.stamps import Step, read_step
from gradsync.record import RankRecord, Row
from gradsync.record.rows import ClockRow


class Timeline:
    """Takes rows as they come, while the run is in progress or long after it."""

    def __init__(self) -> None:
        self.ranks: int | None = None  # how many train, as the first start row says
        self._kernels: dict[int, str] = {}
        self._clocks: dict[int, list[ClockRow]] = defaultdict(list)
        self._open: dict[int, dict[int, Step]] = defaultdict(dict)

    def add(self, rank: int, row: Row) -> list[Step] | None:
        """The step of all ranks, rank by rank, if this row was the last missing one."""
        if row["kind"] == "start":
            self._kernels[rank] = row.get("kernel", "")
            if self.ranks is None:
                self.ranks = row.get("ranks", row["world_size"])
        elif row["kind"] == "clock":
            self._clocks[rank].append(row)
        elif row["kind"] == "step" and "phases" in row:
            ranks = self._open[row["step"]]
            ranks[rank] = read_step(row, self.offset(rank, row["begin"]))
            if self.ranks and len(ranks) >= self.ranks and all(rank in ranks for rank in range(self.ranks)):
                del self._open[row["step"]]
                return [ranks[rank] for rank in range(self.ranks)]
        return None

    def shared(self, rank: int, time: float) -> float:
        """A time by this rank's clock, on rank 0's."""
        return time - self.offset(rank, time)

    def offset(self, rank: int, time: float) -> float:
        """This rank's clock minus rank 0's at that time.

        Ranks under one kernel share a clock; else the offsets measured by ping-pong are interpolated.
        """
        if self._kernels.get(rank) == self._kernels.get(0) or not self._clocks[rank]:
            return 0.0
        return interpolate(self._clocks[rank], time)


def interpolate(clocks: Sequence[ClockRow], time: float) -> float:
    first, last = clocks[0], clocks[-1]
    elapsed = last["time"] - first["time"]
    share = (time - first["time"]) / elapsed if elapsed > 0 else 0.0
    return first["offset"] + share * (last["offset"] - first["offset"])


def timeline_of(ranks: Sequence[RankRecord]) -> Timeline:
    """The timeline of a run that has ended: it knows all clocks before the first step."""
    timeline = Timeline()
    timeline.ranks = len(ranks)
    for rank, record in enumerate(ranks):
        if record.start:
            timeline.add(rank, record.start)
        for row in record.clocks:
            timeline.add(rank, row)
    return timeline


def whole_steps(ranks: Sequence[RankRecord], first: int = 1, last: int | None = None) -> list[list[Step]]:
    """Steps ``first`` to ``last`` of a run that has ended: those every rank has finished and measured."""
    timeline = timeline_of(ranks)
    found = []
    for rank, record in enumerate(ranks):
        for row in record.steps:
            if first <= row["step"] and (last is None or row["step"] <= last):
                step = timeline.add(rank, row)
                if step:
                    found.append(step)
    return found
