"""Which strategies are Pareto-optimal in accuracy, bytes and seconds, for the same amount of training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.exhibit.cases import STRATEGY, WORKERS, case_table
from gradsync.exhibit.columns import axis, cell, heights
from gradsync.exhibit.form import Chart, Column, Mark, Section, Table
from gradsync.exhibit.remarks import one_run_each
from gradsync.figures.cases import Case, cases
from gradsync.figures.catalogue.of_learning import ACCURACY, UPDATES
from gradsync.figures.catalogue.of_time import TRAIN
from gradsync.figures.catalogue.of_traffic import SENT_PER_WORKER
from gradsync.figures.noise import is_chance
from gradsync.figures.value import mean_of
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy
from gradsync.text import joined

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
        unsure = undecided(best, {index: found[index] for index in weighed}) if equal else set()
        said = list(sentences(found, equal, best, unsure)) if equal else [UNEQUAL] if weighed else []
        return [Section("Accuracy, bytes, seconds", [table(found, best, unsure), *charts(found)], said)]


UNEQUAL = (
    "The runs neither made the same number of updates nor trained on the same number of samples: there is no Pareto "
    "frontier between unequal amounts of training. HINT: give all of them the same --epochs."
)
SAME_AMOUNT = 0.01  # the last batch of an epoch may be smaller


def held_equal(found: Sequence[Case]) -> str:
    """What the runs have in common, to begin a sentence with; nothing if it is neither updates nor samples."""
    updates = [mean_of(case.value(UPDATES)) or 0.0 for case in found]
    samples = [samples_trained(case) for case in found]
    if not found:
        return ""
    if is_alike(updates):
        of_samples = f" of {min(samples):,.0f} to {max(samples):,.0f} samples"
        also, each = (" and samples", "") if is_alike(samples) else ("", of_samples)
        return f"At equal updates{also} ({updates[0]:,.0f} updates each{each})"
    if is_alike(samples):
        made = f"{min(updates):,.0f} to {max(updates):,.0f} updates"
        return f"At equal samples ({samples[0]:,.0f} samples each, in {made})"
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


def undecided(best: set[int], found: Mapping[int, Case]) -> set[int]:
    """The points that are on the frontier, or off it, only by differences that chance explains."""
    return {one for one in found if (one in best) == any(is_surpassed(found[one], other) for other in found.values())}


def is_surpassed(case: Case, other: Case) -> bool:
    """Whether the other is better in something by more than chance, and worse in nothing by more than that."""
    better = []
    for figure in FIGURES:
        gain = (mean_of(other.value(figure)) or 0.0) - (mean_of(case.value(figure)) or 0.0)
        if not is_chance(case, other, figure):
            better.append((gain > 0) == (figure.better == "higher"))
    return bool(better) and all(better)


def sentences(found: Sequence[Case], equal: str, best: set[int], unsure: set[int]) -> Iterator[str]:
    sure, others = ([name_of(found[index]) for index in sorted(each)] for each in (best - unsure, unsure))
    if sure:
        yield f"{equal}, {joined(sure)} {'is' if len(sure) == 1 else 'are'} Pareto-optimal in {CRITERIA}."
    if others:
        begin = "It is undecided" if sure else f"{equal}, it is undecided"
        yield (
            f"{begin} whether {joined(others)} {'is' if len(others) == 1 else 'are'} Pareto-optimal"
            f"{'' if sure else f' in {CRITERIA}'}: the differences that decide it are within the uncertainty."
        )
    if best and len(found) > 1:
        yield from one_run_each(found)


CRITERIA = "accuracy, bytes and seconds"


def name_of(case: Case) -> str:
    return f"{case.figures.strategy} × {case.figures.world_size}"


def point_of(case: Case) -> Costs | None:
    values = [mean_of(cell(case, figure)) for figure in FIGURES]
    right, megabytes, seconds = values
    return None if right is None or megabytes is None or seconds is None else (1 - right, megabytes, seconds)


FIGURES = (ACCURACY, SENT_PER_WORKER, TRAIN)


def table(found: Sequence[Case], best: set[int], unsure: set[int]) -> Table:
    optimal = {id(found[index]): "yes" for index in best} | {id(found[index]): "undecided" for index in unsure}
    last = (Column("Pareto-optimal"), lambda case: optimal.get(id(case), ""))
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
