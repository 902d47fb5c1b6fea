"""Computing against communicating, in seconds of an epoch: by the ledger, and by the lab's subtraction.

The subtraction knows epoch times only. One worker with the same share of the batch needs T₁ for all steps of an
epoch; N workers divide these steps among them, so computing should take T₁/N, and what is beyond it in T_N is called
communication. The ledger has stamps of both. Where the two differ, the subtraction calls something communication that
is none, for instance cores that N workers must share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.exhibit import Axis, Chart, Column, Exhibit, Section, Table, Value
from gradsync.record import Run
from gradsync.study.cases import Case, cases, epoch_seconds, is_projected
from gradsync.study.consistency import flags, link_bytes_per_second
from gradsync.study.place import Place, place_of
from gradsync.study.settings import Study
from gradsync.values import counted

BATCHES = (32, 128)
WORKERS = (2, 4)
OFF_THE_EPOCH = 0.25  # the ledger is of steps 2 to 40; later ones may be faster or slower


@dataclass(kw_only=True)
class Communication(Study):
    """Compute and communication seconds of an epoch, by the ledger and by subtraction, and the bandwidth used."""

    strategies: tuple[str, ...] = ("all-reduce",)
    """The strategies to look at. What ddp hides behind computing is no time that is lost: the tables leave it out."""

    batch_sizes: tuple[int, ...] = BATCHES
    """Samples per step and worker, for instance 32,128,512."""

    eval: bool = False
    """Test as well."""

    name: ClassVar[str] = "communication"
    title: ClassVar[str] = "Computing against communicating"

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
    """One case in seconds of an epoch, by its mean over repeats."""

    strategy: str
    workers: int
    share: int
    """Samples per step and worker."""

    place: Place
    """That, and where: one worker with the same did the same work."""

    steps: int
    seconds: float
    compute: float
    communication: float
    wire: float
    """Of it, while bytes moved."""

    hidden: float
    rest: float
    """Making batches, and everything else."""

    gradient_bytes: float
    sent_bytes: float | None
    """By a rank in an epoch, as the kernel counted: the mean of all ranks."""

    link: float | None
    """Bytes a second."""

    projected: bool

    def by_subtraction(self, alone: dict[Place, Epoch]) -> tuple[float, float] | None:
        """Compute and communication."""
        one = alone.get(self.place)
        if one is None:
            return None
        compute = one.seconds / self.workers
        return compute, self.seconds - compute

    @property
    def moved(self) -> float:
        """What passes each link in an epoch, at least, by the formula for all-reduce."""
        return 2 * (self.workers - 1) / self.workers * self.gradient_bytes * self.steps


def read_epoch(case: Case) -> Epoch | None:
    """None where it was not completed, or has no ledger."""
    each = [run.summary for run in case.runs if run.summary]
    needed = ("ledger", "steps_per_epoch", "parameters")
    if not case.completed or not all(figures[name] for figures in each for name in needed):
        return None
    steps = case.figures["steps_per_epoch"]

    def mean(value: float) -> float:
        return value / len(each)

    def part(*names: str) -> float:
        return mean(sum(figures["ledger"][name] for figures in each for name in names)) * steps

    share = case.figures["batch_size"] // case.figures["world_size"]
    seconds = mean(sum(epoch_seconds(figures) or 0.0 for figures in each))
    return Epoch(
        strategy=case.figures["strategy"],
        workers=case.figures["world_size"],
        share=share,
        place=(share, *place_of(case.figures)),
        steps=steps,
        seconds=seconds,
        compute=part("copy", "forward", "backward", "optimizer"),
        communication=part("wait", "wire"),
        wire=part("wire"),
        hidden=mean(sum(figures["hidden_comm"] for figures in each)) * steps,
        rest=part("data", "other"),
        gradient_bytes=case.figures["parameters"] * parameter_bytes(case.figures),
        sent_bytes=sent_in_epoch(case.figures, steps),
        link=link_bytes_per_second(case.figures),
        projected=is_projected(case.figures),
    )


def parameter_bytes(figures: dict[str, Any]) -> int:
    return 8 if figures["precision"] == "fp64" else 4


def sent_in_epoch(figures: dict[str, Any], steps: int) -> float | None:
    networks = [rank["network"] for rank in figures["ranks"] if rank["network"] and rank["network"]["steps"]]
    if not networks:
        return None
    return sum(item["sent_bytes"] / item["steps"] for item in networks) / len(networks) * steps


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
        problems = [] if communication is None or communication >= 0 else ["negative: cannot be"]
        apart = (epoch.compute + epoch.communication + epoch.rest) / epoch.seconds - 1
        if abs(apart) > OFF_THE_EPOCH:
            problems.append(f"parts are {apart:+.0%} off the epoch")
        rows.append([*row, compute, communication, "; ".join(problems)])
    notes = [
        "ledger: stamps of steps 2 to 40, times the steps of an epoch; communication: wait and wire; "
        "subtraction: compute is the epoch of one worker with the same share, over the workers; the rest is "
        "communication."
    ]
    if any(epoch.projected for epoch in found):
        notes.append("epoch: as many steps as one has, at the pace of steps 2 to 40.")
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
        busy = epoch.communication + epoch.hidden
        _, rest = epoch.by_subtraction(alone) or (None, None)
        by_ledger = epoch.moved / busy if busy > 0 else None
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
        "formula: 2 (N − 1)/N · S for every step, S the bytes of all gradients; used: that over the time of "
        "communication, which is the bus bandwidth of nccl-tests; by ledger the hidden time counts too.",
        "flags: what cannot be, or does not go together.",
    ]
    return Table("Bandwidth used", columns, rows, notes)


def chart(found: Sequence[Epoch]) -> Chart:
    rows: list[dict[str, str | int | float | None]] = []
    for epoch in found:
        name = f"{epoch.strategy} × {epoch.workers}, {epoch.share} each"
        parts = {"compute": epoch.compute, "communication": epoch.communication, "other": epoch.rest}
        rows += [{"case": name, "part": part, "seconds": value} for part, value in parts.items()]
    x, y = Axis("case", "workers and batch per worker"), Axis("seconds", "epoch", "s")
    return Chart("Computing against communicating", "stack", rows, x, y, "part")


def sentences(found: Sequence[Epoch], alone: dict[Place, Epoch]) -> Iterator[str]:
    for epoch in found:
        share = epoch.communication / (epoch.compute + epoch.communication + epoch.rest or 1.0)
        text = (
            f"{epoch.strategy} with {counted(epoch.workers, 'worker')} and batches of {epoch.share} each "
            f"communicates {share:.0%} of the time"
        )
        other = epoch.by_subtraction(alone)
        yield f"{text}; by subtraction it would be {other[1] / epoch.seconds:.0%}." if other else f"{text}."
