"""Which strategies are Pareto-optimal in accuracy, bytes and seconds, for the same amount of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.exhibit.cases import STRATEGY, WORKERS, case_table
from gradsync.exhibit.columns import axis, cell, heights
from gradsync.exhibit.form import Chart, Column, Mark, Section, Table
from gradsync.figures.cases import Case, cases
from gradsync.figures.catalogue.of_learning import ACCURACY, UPDATES
from gradsync.figures.catalogue.of_time import TRAIN
from gradsync.figures.catalogue.of_traffic import SENT_PER_WORKER
from gradsync.figures.value import mean_of
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy

WAYS = ("local", "gather-scatter", "reduce-broadcast", "all-reduce", "ring", "bucketed", "ddp", "ps-sync", "ps-async")

Costs = tuple[float, float, float]
"""What is minimized: 1 − accuracy, bytes, seconds."""


@dataclass(kw_only=True)
class Pareto(SettingsStudy):
    """Pareto-optimal strategies in accuracy, bytes and time, at equal work."""

    strategies: tuple[str, ...] = WAYS
    """The strategies to compare."""

    name: ClassVar[str] = "pareto"
    title: ClassVar[str] = "Strategies by accuracy, bytes and seconds"

    def plan(self) -> list[RunConfig]:
        numbers = self.workers or (2,)
        batch = self.batch_size or (self.batch_per_worker or 32) * max(numbers)
        return [
            self.run(strategy, workers, batch_size=batch)
            for strategy in self.strategies
            for workers in ((1,) if strategy == "local" else numbers)
        ]

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        if not found:
            return []
        weighed = {index: point for index, case in enumerate(found) if (point := point_of(case))}
        equal = held_equal([found[index] for index in weighed])
        best = frontier(weighed) if equal else set()
        names = ", ".join(name_of(found[index]) for index in sorted(best))
        said = [f"{equal} Pareto-optimal in accuracy, bytes and seconds: {names}."] if best else []
        if weighed and not equal:
            said = [UNEQUAL]
        return [Section("Accuracy, bytes, seconds", [table(found, best), *charts(found)], said)]


UNEQUAL = (
    "The runs neither made the same number of updates nor trained on the same number of samples: there is no Pareto "
    "frontier between unequal amounts of training. HINT: give all of them the same --epochs."
)
SAME_AMOUNT = 0.01  # the last batch of an epoch may be smaller


def held_equal(found: Sequence[Case]) -> str:
    """What the runs have in common, as a sentence; nothing if it is neither updates nor samples."""
    updates = [mean_of(case.value(UPDATES)) or 0.0 for case in found]
    samples = [samples_trained(case) for case in found]
    if not found:
        return ""
    if is_alike(updates):
        also = " and samples" if is_alike(samples) else f", of {min(samples):,.0f} to {max(samples):,.0f} samples"
        return f"At equal updates{also} ({updates[0]:,.0f} updates each)."
    if is_alike(samples):
        made = f"{min(updates):,.0f} to {max(updates):,.0f} updates"
        return f"At equal samples ({samples[0]:,.0f} each), which were {made}."
    return ""


def is_alike(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= SAME_AMOUNT * max(values)


def samples_trained(case: Case) -> float:
    """Samples trained by all workers, with every batch counted in full."""
    figures = case.figures
    return sum(rank.steps for rank in figures.ranks) * figures.batch_size / len(figures.ranks)


def frontier(points: dict[int, Costs]) -> set[int]:
    """The points for which no other is at least as good in everything and better in something."""
    return {
        one
        for one, point in points.items()
        if not any(
            all(theirs <= own for theirs, own in zip(other, point, strict=True)) and other != point
            for other in points.values()
        )
    }


def name_of(case: Case) -> str:
    return f"{case.figures.strategy} × {case.figures.world_size}"


def point_of(case: Case) -> Costs | None:
    values = [mean_of(cell(case, figure)) for figure in FIGURES]
    right, megabytes, seconds = values
    return None if right is None or megabytes is None or seconds is None else (1 - right, megabytes, seconds)


FIGURES = (ACCURACY, SENT_PER_WORKER, TRAIN)


def table(found: Sequence[Case], best: set[int]) -> Table:
    optimal = {id(case) for index, case in enumerate(found) if index in best}
    last = (Column("Pareto-optimal"), lambda case: "yes" if id(case) in optimal else "")
    return case_table(
        "Strategies by accuracy, bytes and seconds", found, STRATEGY | WORKERS, [UPDATES, *FIGURES, last]
    )


def charts(found: Sequence[Case]) -> list[Chart]:
    rows: list[Mark] = [{"name": name_of(case), **heights(case, *FIGURES)} for case in found if point_of(case)]
    if len(rows) < 2:
        return []
    y = axis(ACCURACY)
    return [
        Chart("Accuracy against seconds", "points", rows, axis(TRAIN), y, "name"),
        Chart("Accuracy against bytes", "points", rows, axis(SENT_PER_WORKER), y, "name"),
    ]
