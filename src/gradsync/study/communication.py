"""Computation against communication, in seconds of an epoch: by the ledger, and by the subtraction of the HPML lab.

The subtraction uses epoch times only. One worker with the same share of the batch needs T₁ for all steps of an
epoch; N workers divide these steps among them, so computing should take T₁/N, and the rest of T_N is called
communication. The ledger has stamps of both. Where the two differ, the subtraction calls something communication that
is not, for instance waiting for cores that N workers share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.exhibit.cases import STRATEGY, WORKERS, Fact, case_table, share_of
from gradsync.exhibit.columns import axis, cell, column, height
from gradsync.exhibit.form import Axis, Chart, Column, Exhibit, Mark, Section, Table
from gradsync.exhibit.runs.table import window_text
from gradsync.figures.cases import Case, cases
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
from gradsync.figures.catalogue.of_traffic import BANDWIDTH, CLOSED_FORM, SENT_EPOCH, gradient_bytes
from gradsync.figures.consistency import flags, link_bytes_per_second
from gradsync.figures.figure import UNITS, Figure
from gradsync.figures.place import Place, place_of
from gradsync.figures.value import Value, difference, mean_of, ratio, scaled
from gradsync.ledger.cost import link_share
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
        shared = [case for case in found if case.figures.world_size > 1]
        if not shared:
            return []
        exhibits: list[Exhibit] = [time_table(shared, alone), bandwidth_table(shared, alone), chart(shared)]
        return [Section("Computing and communicating", exhibits, list(sentences(shared, alone)))]


Alone = Mapping[Place, Case]
"""The cases of one worker, by place."""


def is_measured(case: Case) -> bool:
    figures = case.figures
    return bool(case.completed and figures.ledger and figures.steps_per_epoch and gradient_bytes(figures))


def place(case: Case) -> Place:
    """The share, and where it was run: one worker in the same place did the same work."""
    return (share_of(case), *place_of(case.figures))


def computing(case: Case, alone: Alone) -> Value:
    """Seconds of an epoch, by subtraction."""
    one = alone.get(place(case))
    return scaled(one.value(EPOCH), 1 / case.figures.world_size) if one else None


def communicating(case: Case, alone: Alone) -> Value:
    """Seconds of an epoch, by subtraction."""
    return difference(case.value(EPOCH), computing(case, alone))


def moved(case: Case) -> float:
    """The least bytes that pass each link in an epoch, by the formula for all-reduce."""
    figures = case.figures
    return link_share("all-reduce", figures.world_size) * gradient_bytes(figures) * (figures.steps_per_epoch or 0)


def sent(case: Case) -> Value:
    """Bytes sent by a rank in an epoch, as the kernel counted: the mean over all ranks."""
    return scaled(case.value(SENT_EPOCH), 1 / len(case.figures.ranks))


def declared(case: Case) -> Value:
    """Bytes sent by a rank in an epoch by the closed form of the strategy, as the run has recorded it."""
    figures = case.figures
    return scaled(case.value(CLOSED_FORM), (figures.steps_per_epoch or 0) / len(figures.ranks))


def bandwidth(case: Case, alone: Alone) -> Value:
    """Bytes per second, by subtraction; None where it leaves no time."""
    rest = communicating(case, alone)
    return ratio(moved(case), rest) if (mean_of(rest) or 0.0) > 0 else None


def link(case: Case) -> Value:
    return link_bytes_per_second(case.figures)


def odd_times(case: Case, alone: Alone) -> str:
    """What contradicts the time of the epoch."""
    found = ["impossible: negative time"] if (mean_of(communicating(case, alone)) or 0.0) < 0 else []
    apart = sum(mean(case, part) for part in PARTS.values()) / mean(case, EPOCH) - 1
    return "; ".join([*found, *([f"parts are {apart:+.0%} off the epoch"] if abs(apart) > OFF_THE_EPOCH else [])])


def odd_bytes(case: Case, alone: Alone) -> str:
    """What contradicts the bytes, or the link."""
    hidden = mean(case, HIDDEN_STEP) * (case.figures.steps_per_epoch or 0)
    rest, most = mean_of(communicating(case, alone)), link_bytes_per_second(case.figures)
    wire = mean(case, WIRE_EPOCH) + hidden
    return "; ".join(flags(moved(case), mean_of(declared(case)), mean_of(sent(case)), wire, most, rest))


def mean(case: Case, figure: Figure) -> float:
    return mean_of(case.value(figure)) or 0.0


FACTS = STRATEGY | WORKERS | {"batch per worker": share_of}
PARTS = {"compute": COMPUTE_EPOCH, "communication": COMMUNICATION_EPOCH, "other": REST_EPOCH}


def named(title: str, figure: Figure) -> tuple[Column, Fact]:
    """A figure under a title that says how it was found."""
    return replace(column(figure), name=title), lambda case: cell(case, figure)


def derived(title: str, unit: str, of: Fact) -> tuple[Column, Fact]:
    """``of`` gives seconds, bytes, or bytes per second."""
    return Column(title, unit), lambda case: scaled(of(case), UNITS[unit])


def time_table(found: Sequence[Case], alone: Alone) -> Table:
    columns = [
        named("epoch", EPOCH),
        named("compute by ledger", COMPUTE_EPOCH),
        named("communication by ledger", COMMUNICATION_EPOCH),
        named("other", REST_EPOCH),
        derived("compute by subtraction", EPOCH.unit, lambda case: computing(case, alone)),
        derived("communication by subtraction", EPOCH.unit, lambda case: communicating(case, alone)),
        (Column("flags"), lambda case: odd_times(case, alone)),
    ]
    timed = " or ".join(dict.fromkeys(window_text(case.figures) for case in found))
    notes = [
        f"ledger: stamps of {timed}, times the steps of an epoch; communication: wait and wire; "
        "subtraction: compute is the epoch of one worker with the same share, divided by the number of workers; the "
        "rest is communication."
    ]
    if any(is_projected(case.figures) for case in found):
        notes.append(f"epoch: projected to all its steps at the pace of {timed}.")
    return case_table("Compute and communication seconds of an epoch", found, FACTS, columns, notes)


def bandwidth_table(found: Sequence[Case], alone: Alone) -> Table:
    columns = [
        derived("by formula", "MB", moved),
        derived("counted", "MB", sent),
        named("used by ledger", BANDWIDTH),
        derived("used by subtraction", BANDWIDTH.unit, lambda case: bandwidth(case, alone)),
        derived("link", BANDWIDTH.unit, link),
        (Column("of the link by ledger", "", ".0%"), lambda case: ratio(case.value(BANDWIDTH), link(case))),
        (Column("flags"), lambda case: odd_bytes(case, alone)),
    ]
    notes = [
        "formula: 2 (N − 1)/N · S for every step of an epoch, S the bytes of all gradients; counted: sent by a rank "
        "in an epoch; used: the bytes of the formula over the time of communication, which is the bus bandwidth of "
        "nccl-tests; by ledger the hidden time counts too.",
        "flags: figures that are impossible, or contradict each other.",
    ]
    return case_table("Bandwidth used", found, FACTS, columns, notes)


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


def sentences(found: Sequence[Case], alone: Alone) -> Iterator[str]:
    for case in found:
        share, other = COMMUNICATION_SHARE, difference(1.0, ratio(computing(case, alone), case.value(EPOCH)))
        text = (
            f"{case.figures.strategy} with {counted(case.figures.world_size, 'worker')} and batches of "
            f"{share_of(case)} each communicates {share.text(case.value(share))} of the time"
        )
        yield f"{text}; by subtraction it would be {share.text(other)}." if other is not None else f"{text}."
