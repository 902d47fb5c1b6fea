"""What one rank has written, by kind: the one reader of whole rank files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gradsync.record.damage import DamagedRecord
from gradsync.record.folder import rank_file
from gradsync.record.rows import (
    ClockRow,
    ConformanceRow,
    EndRow,
    ErrorRow,
    GoodbyeRow,
    HostRow,
    LinksRow,
    LostRow,
    PointRow,
    PushRow,
    RoundTripRow,
    Row,
    StartRow,
    StepRow,
    TestRow,
    read_rows,
)


@dataclass
class RankRecord:
    """One rank's rows, those of a kind in the order in which they were written. Empty: it has written nothing."""

    start: StartRow | None = None
    """For a collective benchmark, it has only what ``ProbeStartRow`` has."""

    clocks: list[ClockRow] = field(default_factory=list)
    links: list[LinksRow] = field(default_factory=list)
    round_trip: RoundTripRow | None = None
    hosts: list[HostRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    tests: list[TestRow] = field(default_factory=list)
    pushes: list[PushRow] = field(default_factory=list)
    lost: list[LostRow] = field(default_factory=list)
    goodbyes: list[GoodbyeRow] = field(default_factory=list)
    points: list[PointRow] = field(default_factory=list)
    conformance: ConformanceRow | None = None
    end: EndRow | None = None
    error: ErrorRow | None = None

    @property
    def is_empty(self) -> bool:
        return self == RankRecord()

    def add(self, rows: Iterable[Row]) -> RankRecord:
        """If there are several rows of a kind that should occur once, the first counts."""
        lists = {
            "clock": self.clocks,
            "links": self.links,
            "host": self.hosts,
            "step": self.steps,
            "test": self.tests,
            "push": self.pushes,
            "lost": self.lost,
            "goodbye": self.goodbyes,
            "point": self.points,
        }
        for row in rows:
            if row["kind"] == "start":
                self.start = self.start or row
            elif row["kind"] == "round-trip":
                self.round_trip = self.round_trip or row
            elif row["kind"] == "conformance":
                self.conformance = self.conformance or row
            elif row["kind"] == "end":
                self.end = self.end or row
            elif row["kind"] == "error":
                self.error = self.error or row
            else:
                lists[row["kind"]].append(row)  # type: ignore[attr-defined] # the list of this kind
        return self


def record_of(rows: Iterable[Row]) -> RankRecord:
    return RankRecord().add(rows)


def read_rank(path: Path, stamps_until: int | None = None) -> RankRecord:
    """``stamps_until``: leave out the stamps of later steps, which are most of the bytes."""
    return record_of(read_rows(path, stamps_until))


def rank_records(folder: Path, count: int, stamps_until: int | None = None) -> list[RankRecord]:
    """The records of ranks 0 to ``count`` - 1."""
    return [read_rank(rank_file(folder, rank), stamps_until) for rank in range(count)]


def records_until_damage(
    folder: Path, count: int, stamps_until: int | None = None
) -> tuple[list[RankRecord], DamagedRecord | None]:
    """Each rank's rows as far as they can be read, and what is wrong with the next one."""
    found: list[RankRecord] = []
    damage = None
    for rank in range(count):
        found.append(RankRecord())
        try:
            found[-1].add(read_rows(rank_file(folder, rank), stamps_until))
        except DamagedRecord as error:
            damage = damage or error
    return found, damage
