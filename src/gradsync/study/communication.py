"""Computation against communication, in seconds of an epoch: by the ledger, and by the subtraction of the HPML lab.

The subtraction uses epoch times only. One worker with the same share of the batch needs T₁ for all steps of an
epoch; N workers divide these steps among them, so computing should take T₁/N, and the rest of T_N is called
communication. The ledger has stamps of both. Where the two differ, the subtraction calls something communication that
is not, for instance waiting for cores that N workers share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.exhibit.cases import share_of
from gradsync.exhibit.form import Axis, Chart, Column, Exhibit, Section, Table
from gradsync.exhibit.runs.table import window_text
from gradsync.figures.cases import Case, cases
from gradsync.figures.catalogue.of_time import (
    COMMUNICATION_EPOCH,
    COMPUTE_EPOCH,
    EPOCH,
    HIDDEN_STEP,
    REST_EPOCH,
    WIRE_EPOCH,
    is_projected,
)
from gradsync.figures.catalogue.of_traffic import BANDWIDTH, SENT_EPOCH, gradient_bytes
from gradsync.figures.consistency import flags, link_bytes_per_second
from gradsync.figures.figure import Figure
from gradsync.figures.place import Place, place_of
from gradsync.figures.value import Value, mean_of
from gradsync.ledger.cost import link_share
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy

BATCHES = (32, 128)
WORKERS = (2, 4)
OFF_THE_EPOCH = 0.25  # the ledger covers the timed window only; other steps may be faster or slower


@dataclass(kw_only=True)
class Communication(SettingsStudy):
    """Compute and communication time of an epoch, and the bandwidth that was used."""

    strategies: tuple[str, ...] = ("all-reduce",)
    """The strategies to measure. The tables leave out communication that ddp hides behind computation."""

    batch_sizes: tuple[int, ...] = BATCHES
    """Samples per step and worker, for instance 32,128,512."""

    eval: bool = False
    """Test as well."""

    name: ClassVar[str] = "communication"
    title: ClassVar[str] = "Computation against communication"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size or self.batch_per_worker:
            raise InputError("this study has several batch sizes per worker: give --batch-sizes 32,128.")
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            raise InputError("--batch-sizes: name at least one, each 1 or more.")

    def plan(self) -> list[RunConfig]:
        numbers = [n for n in self.workers or WORKERS if n > 1]
        alone = [self.run("local", 1, batch_per_worker=size) for size in self.batch_sizes]
        return alone + [
            self.run(strategy, workers, batch_per_worker=size)
            for strategy in self.strategies
            for workers in numbers
            for size in self.batch_sizes
        ]

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = [epoch for case in cases(runs) if (epoch := read_epoch(case))]
        alone = {epoch.place: epoch for epoch in found if epoch.workers == 1}
        shared = [epoch for epoch in found if epoch.workers > 1]
        if not shared:
            return []
        exhibits: list[Exhibit] = [time_table(shared, alone), bandwidth_table(shared, alone), chart(shared)]
        return [Section("Computing and communicating", exhibits, list(sentences(shared, alone)))]


@dataclass(frozen=True)
class Epoch:
    """One case in seconds of an epoch, the mean over its repeats."""

    strategy: str
    workers: int
    share: int
    """Samples per step and worker."""

    place: Place
    """The share, and where it was run: one worker in the same place did the same work."""

    steps: int
    seconds: float
    compute: float
    communication: float
    wire: float
    """The part of communication in which bytes moved."""

    hidden: float
    rest: float
    """Making batches, and everything else."""

    gradient_bytes: float
    sent_bytes: float | None
    """Sent by a rank in an epoch, as the kernel counted: the mean over all ranks."""

    link: float | None
    """Bytes a second."""

    bandwidth: float | None
    """Bandwidth used, by the ledger, in bytes a second."""

    window: str
    projected: bool

    def by_subtraction(self, alone: dict[Place, Epoch]) -> tuple[float, float] | None:
        """Seconds of compute and of communication."""
        one = alone.get(self.place)
        if one is None:
            return None
        compute = one.seconds / self.workers
        return compute, self.seconds - compute

    @property
    def moved(self) -> float:
        """The least bytes that pass each link in an epoch, by the formula for all-reduce."""
        return link_share("all-reduce", self.workers) * self.gradient_bytes * self.steps


def read_epoch(case: Case) -> Epoch | None:
    """None if the case was not completed, or has no ledger."""
    figures = case.figures
    if not case.completed or not figures.ledger or not figures.steps_per_epoch or not figures.parameters:
        return None

    def mean(figure: Figure) -> float:
        return mean_of(case.value(figure)) or 0.0

    share = share_of(case)
    sent = mean_of(case.value(SENT_EPOCH))
    return Epoch(
        strategy=figures.strategy,
        workers=figures.world_size,
        share=share,
        place=(share, *place_of(figures)),
        steps=figures.steps_per_epoch,
        seconds=mean(EPOCH),
        compute=mean(COMPUTE_EPOCH),
        communication=mean(COMMUNICATION_EPOCH),
        wire=mean(WIRE_EPOCH),
        hidden=mean(HIDDEN_STEP) * figures.steps_per_epoch,
        rest=mean(REST_EPOCH),
        gradient_bytes=gradient_bytes(figures),
        sent_bytes=None if sent is None else sent / len(figures.ranks),
        link=link_bytes_per_second(figures),
        bandwidth=mean_of(case.value(BANDWIDTH)),
        window=window_text(figures),
        projected=is_projected(figures),
    )


def time_table(found: Sequence[Epoch], alone: dict[Place, Epoch]) -> Table:
    columns = [
        Column("strategy"),
        Column("workers"),
        Column("batch per worker"),
        Column("epoch", "s"),
        Column("compute by ledger", "s"),
        Column("communication by ledger", "s"),
        Column("other", "s"),
        Column("compute by subtraction", "s"),
        Column("communication by subtraction", "s"),
        Column("flags"),
    ]
    rows: list[list[Value]] = []
    for epoch in found:
        compute, communication = epoch.by_subtraction(alone) or (None, None)
        row: list[Value] = [
            epoch.strategy,
            epoch.workers,
            epoch.share,
            epoch.seconds,
            epoch.compute,
            epoch.communication,
            epoch.rest,
        ]
        problems = [] if communication is None or communication >= 0 else ["impossible: negative time"]
        apart = (epoch.compute + epoch.communication + epoch.rest) / epoch.seconds - 1
        if abs(apart) > OFF_THE_EPOCH:
            problems.append(f"parts are {apart:+.0%} off the epoch")
        rows.append([*row, compute, communication, "; ".join(problems)])
    timed = " or ".join(dict.fromkeys(epoch.window for epoch in found))
    notes = [
        f"ledger: stamps of {timed}, times the steps of an epoch; communication: wait and wire; "
        "subtraction: compute is the epoch of one worker with the same share, divided by the number of workers; the "
        "rest is communication."
    ]
    if any(epoch.projected for epoch in found):
        notes.append(f"epoch: projected to all its steps at the pace of {timed}.")
    return Table("Compute and communication seconds of an epoch", columns, rows, notes)


def bandwidth_table(found: Sequence[Epoch], alone: dict[Place, Epoch]) -> Table:
    columns = [
        Column("strategy"),
        Column("workers"),
        Column("batch per worker"),
        Column("by formula", "MB/epoch"),
        Column("counted", "MB/epoch"),
        Column("used by ledger", "GB/s"),
        Column("used by subtraction", "GB/s"),
        Column("link", "GB/s"),
        Column("of the link by ledger", "", ".0%"),
        Column("flags"),
    ]
    rows: list[list[Value]] = []
    for epoch in found:
        _, rest = epoch.by_subtraction(alone) or (None, None)
        by_ledger = epoch.bandwidth
        by_rest = epoch.moved / rest if rest and rest > 0 else None
        problems = flags(epoch.strategy, epoch.moved, epoch.sent_bytes, epoch.wire + epoch.hidden, epoch.link, rest)
        rows.append(
            [
                epoch.strategy,
                epoch.workers,
                epoch.share,
                epoch.moved / 1e6,
                None if epoch.sent_bytes is None else epoch.sent_bytes / 1e6,
                None if by_ledger is None else by_ledger / 1e9,
                None if by_rest is None else by_rest / 1e9,
                None if epoch.link is None else epoch.link / 1e9,
                by_ledger / epoch.link if by_ledger and epoch.link else None,
                "; ".join(problems),
            ]
        )
    notes = [
        "formula: 2 (N − 1)/N · S for every step, S the bytes of all gradients; used: these bytes over the time of "
        "communication, which is the bus bandwidth of nccl-tests; by ledger the hidden time counts too.",
        "flags: figures that are impossible, or contradict each other.",
    ]
    return Table("Bandwidth used", columns, rows, notes)


def chart(found: Sequence[Epoch]) -> Chart:
    rows: list[dict[str, str | int | float | None]] = []
    for epoch in found:
        name = f"{epoch.strategy} × {epoch.workers}, {epoch.share} each"
        parts = {"compute": epoch.compute, "communication": epoch.communication, "other": epoch.rest}
        rows += [{"case": name, "part": part, "seconds": value} for part, value in parts.items()]
    x, y = Axis("case", "workers and batch per worker"), Axis("seconds", "epoch", "s")
    return Chart("Computation against communication", "stack", rows, x, y, "part")


def sentences(found: Sequence[Epoch], alone: dict[Place, Epoch]) -> Iterator[str]:
    for epoch in found:
        share = epoch.communication / (epoch.compute + epoch.communication + epoch.rest or 1.0)
        text = (
            f"{epoch.strategy} with {counted(epoch.workers, 'worker')} and batches of {epoch.share} each "
            f"communicates {share:.0%} of the time"
        )
        other = epoch.by_subtraction(alone)
        yield f"{text}; by subtraction it would be {other[1] / epoch.seconds:.0%}." if other else f"{text}."
