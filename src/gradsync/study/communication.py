"""Computation against communication, in seconds of an epoch: by the ledger, and by the subtraction of the HPML lab.

The subtraction (figures/catalogue/of_subtraction.py) uses epoch times only; the ledger has stamps of both. Where the
two differ, the subtraction calls something communication that is not, for instance waiting for cores that N workers
share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.exhibit.cases import STRATEGY, WORKERS, Fact, case_table, share_of
from gradsync.exhibit.columns import axis, cell_of, column, height
from gradsync.exhibit.form import Axis, Chart, Column, Exhibit, Mark, Section, Table
from gradsync.exhibit.runs.table import window_text
from gradsync.figures.cases import Case, cases
from gradsync.figures.catalogue.of_subtraction import (
    BANDWIDTH_LEFT,
    COMMUNICATION_LEFT,
    COMPUTE_LEFT,
    SHARE_LEFT,
    Subtraction,
)
from gradsync.figures.catalogue.of_time import (
    COMMUNICATION_EPOCH,
    COMMUNICATION_SHARE,
    COMPUTE_EPOCH,
    EPOCH,
    HIDDEN_STEP,
    REST_EPOCH,
    WIRE_EPOCH,
    is_projected,
)
from gradsync.figures.catalogue.of_traffic import (
    BANDWIDTH,
    CLOSED_FORM,
    FORMULA_EPOCH,
    LINK,
    LINK_SHARE,
    SENT_BY_A_RANK,
    gradient_bytes,
)
from gradsync.figures.consistency import flags, link_bytes_per_second
from gradsync.figures.figure import Figure, FigureOf
from gradsync.figures.place import Place, place_of
from gradsync.figures.value import Value, mean_of, percent, scaled
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy

BATCHES = (32, 128)
DEFAULT_WORKERS = (2, 4)
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
        numbers = [n for n in self.workers or DEFAULT_WORKERS if n > 1]
        alone = [self.run("local", 1, batch_per_worker=size) for size in self.batch_sizes]
        return alone + [
            self.run(strategy, workers, batch_per_worker=size)
            for strategy in self.strategies
            for workers in numbers
            for size in self.batch_sizes
        ]

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = [case for case in cases(runs) if is_measured(case)]
        alone = {place(case): case for case in found if case.figures.world_size == 1}
        shared = [Subtraction(case, alone.get(place(case))) for case in found if case.figures.world_size > 1]
        if not shared:
            return []
        measured = [each.case for each in shared]
        exhibits: list[Exhibit] = [time_table(shared), bandwidth_table(shared), chart(measured)]
        return [Section("Computing and communicating", exhibits, list(sentences(shared)))]


def is_measured(case: Case) -> bool:
    figures = case.figures
    return bool(case.completed and figures.ledger and figures.steps_per_epoch and gradient_bytes(figures))


def place(case: Case) -> Place:
    """The share, and where it was run: one worker in the same place did the same work."""
    return (share_of(case), *place_of(case.figures))


def declared(case: Case) -> Value:
    """Bytes sent by a rank in an epoch by the closed form of the strategy, as the run has recorded it."""
    figures = case.figures
    return scaled(case.value(CLOSED_FORM), (figures.steps_per_epoch or 0) / len(figures.ranks))


def odd_times(item: Subtraction) -> str:
    """What contradicts the time of the epoch."""
    found = ["impossible: negative time"] if (mean_of(COMMUNICATION_LEFT.of(item)) or 0.0) < 0 else []
    apart = sum(mean(item.case, part) for part in PARTS.values()) / mean(item.case, EPOCH) - 1
    off = [f"parts are {percent(apart, signed=True)} off the epoch"] if abs(apart) > OFF_THE_EPOCH else []
    return "; ".join([*found, *off])


def odd_bytes(item: Subtraction) -> str:
    """What contradicts the bytes, or the link."""
    case = item.case
    hidden = mean(case, HIDDEN_STEP) * (case.figures.steps_per_epoch or 0)
    counts, rest = mean_of(case.value(SENT_BY_A_RANK)), mean_of(COMMUNICATION_LEFT.of(item))
    most = link_bytes_per_second(case.figures)
    wire = mean(case, WIRE_EPOCH) + hidden
    return "; ".join(flags(mean(case, FORMULA_EPOCH), mean_of(declared(case)), counts, wire, most, rest))


def mean(case: Case, figure: Figure) -> float:
    return mean_of(case.value(figure)) or 0.0


FACTS = STRATEGY | WORKERS | {"batch per worker": share_of}
PARTS = {"compute": COMPUTE_EPOCH, "communication": COMMUNICATION_EPOCH, "other": REST_EPOCH}


def paired(found: Sequence[Subtraction], of: Callable[[Subtraction], Value]) -> Fact:
    """What needs the run of one worker, too."""
    pairs = {id(item.case): item for item in found}
    return lambda case: of(pairs[id(case)])


def left(found: Sequence[Subtraction], figure: FigureOf[Subtraction]) -> tuple[Column, Fact]:
    return column(figure), paired(found, lambda item: cell_of(item, figure))


def time_table(found: Sequence[Subtraction]) -> Table:
    figures: list[Figure | tuple[Column, Fact]] = [
        *(EPOCH, *PARTS.values()),
        *(left(found, figure) for figure in (COMPUTE_LEFT, COMMUNICATION_LEFT)),
        (Column("flags"), paired(found, odd_times)),
    ]
    measured = [item.case for item in found]
    timed = " or ".join(dict.fromkeys(window_text(case.figures) for case in measured))
    notes = [f"{COMPUTE_LEFT.note}; {COMMUNICATION_LEFT.note}.", f"The steps of the ledger: {timed}."]
    if any(is_projected(case.figures) for case in measured):
        notes.append(f"epoch: projected to all its steps at the pace of {timed}.")
    return case_table("Compute and communication seconds of an epoch", measured, FACTS, figures, notes)


def bandwidth_table(found: Sequence[Subtraction]) -> Table:
    figures: list[Figure | tuple[Column, Fact]] = [
        *(FORMULA_EPOCH, SENT_BY_A_RANK, BANDWIDTH),
        left(found, BANDWIDTH_LEFT),
        *(LINK, LINK_SHARE),
        (Column("flags"), paired(found, odd_bytes)),
    ]
    notes = [
        f"{BANDWIDTH_LEFT.note}. {BANDWIDTH.title.capitalize()} is the bus bandwidth of nccl-tests.",
        "flags: figures that are impossible, or contradict each other.",
    ]
    return case_table("Bandwidth used", [item.case for item in found], FACTS, figures, notes)


def chart(found: Sequence[Case]) -> Chart:
    rows: list[Mark] = [
        {
            "case": f"{case.figures.strategy} × {case.figures.world_size}, {share_of(case)} each",
            "part": part,
            EPOCH.name: height(case.value(figure), EPOCH),
        }
        for case in found
        for part, figure in PARTS.items()
    ]
    x = Axis("case", "workers and batch per worker")
    return Chart("Computation against communication", "stack", rows, x, axis(EPOCH), "part")


def sentences(found: Sequence[Subtraction]) -> Iterator[str]:
    for item in found:
        case, other = item.case, SHARE_LEFT.of(item)
        text = (
            f"{case.figures.strategy} with {counted(case.figures.world_size, 'worker')} and batches of "
            f"{share_of(case)} each communicates {COMMUNICATION_SHARE.text(case.value(COMMUNICATION_SHARE))} of the "
            "time"
        )
        yield f"{text}; by subtraction it would be {SHARE_LEFT.text(other)}." if other is not None else f"{text}."
