"""What large batches do to accuracy after the same number of epochs, and what the remedies recover.

The remedies are those of Goyal et al. (2017): a learning rate that grows with the batch, reached over the first
epochs. LARS (You et al. 2017) is a third option.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from gradsync.config import RunConfig
from gradsync.config.resolved import optimizer_for, usual_rate
from gradsync.errors import InputError
from gradsync.exhibit.cases import BATCH, Fact, case_table
from gradsync.exhibit.columns import axis, heights
from gradsync.exhibit.form import Axis, Chart, Mark, Section, Table
from gradsync.exhibit.remarks import one_run_each, within
from gradsync.figures.cases import Case, cases, way_of
from gradsync.figures.catalogue.of_learning import ACCURACY, TEST_LOSS, TRAIN_ACCURACY, TRAIN_LOSS, UPDATES
from gradsync.figures.noise import estimate
from gradsync.figures.value import deviation_of, difference, mean_of
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy

Remedy = Literal["none", "scaling", "lars"]

EPOCHS = 5
BATCHES = (32, 128, 512)
MOST_WARMUP = 5.0


@dataclass(kw_only=True)
class LargeBatch(SettingsStudy):
    """Accuracy by batch size, with one learning rate and with large-batch remedies."""

    batch_sizes: tuple[int, ...] = BATCHES
    """Global batch sizes; --lr is meant for the first one."""

    remedies: tuple[Remedy, ...] = ("none", "scaling")
    """none: one learning rate for all; scaling: it grows with the batch, with a warm-up; lars: the same with LARS."""

    train_accuracy: bool = True
    """Also record the training accuracy of each batch."""

    name: ClassVar[str] = "large-batch"
    title: ClassVar[str] = "Large batches, and what they cost"
    default_epochs: ClassVar[int | None] = EPOCHS

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            raise InputError("--batch-sizes: name at least one, each 1 or more.")
        if not self.remedies:
            raise InputError("--remedies is empty: name none, scaling or lars.")

    def plan(self) -> list[RunConfig]:
        return [
            self.run(strategy, workers, batch_size=size, **self.settings_of(remedy, size))
            for strategy in self.ways
            for workers in self.numbers
            for remedy in self.remedies
            for size in self.batch_sizes
            if remedy == "none" or size != self.batch_sizes[0]  # the first size has nothing to remedy
        ]

    def settings_of(self, remedy: Remedy, size: int) -> dict[str, Any]:
        if remedy == "none":
            return {"warmup_epochs": 0.0}
        warmup = (
            min(MOST_WARMUP, (self.epochs or (1 if self.steps else EPOCHS)) / 4)
            if self.warmup_epochs is None
            else self.warmup_epochs
        )
        growth = size / self.batch_sizes[0]
        optimizer = "lars" if remedy == "lars" else optimizer_for(self)
        base = (None if remedy == "lars" else self.lr) or usual_rate(optimizer)
        return {"lr": base * growth, "warmup_epochs": warmup, "optimizer": optimizer}

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        return [Section("Large batches", [table(found), *charts(found)], list(sentences(found)))] if found else []


def remedy_of(case: Case) -> str:
    """How its learning rate was chosen, read from its settings: a run without warm-up has no remedy."""
    if not case.setting["warmup_epochs"]:
        return "none"
    return "lars" if case.setting["optimizer"] == "lars" else "scaling"


def table(found: Sequence[Case]) -> Table:
    epochs = max((len(case.figures.train_loss) for case in found if case.completed), default=0)
    facts: dict[str, Fact] = {
        "strategy": lambda case: way_of(case, found),
        **BATCH,
        "remedy": remedy_of,
        "learning rate": lambda case: case.figures.lr,
    }
    figures = (UPDATES, TRAIN_LOSS, TRAIN_ACCURACY, TEST_LOSS, ACCURACY)
    return case_table(f"Loss and accuracy of epoch {epochs} by batch size", found, facts, figures)


def charts(found: Sequence[Case]) -> list[Chart]:
    done = [case for case in found if case.completed and case.value(ACCURACY) is not None]
    smallest = min((case.figures.batch_size for case in done), default=0)
    several = len({way_of(case, done) for case in done}) > 1
    rows: list[Mark] = []
    for case in done:
        size, reached_there = case.figures.batch_size, heights(case, ACCURACY, TRAIN_LOSS)
        names = [remedy_of(case)]
        if size == smallest:  # where every line begins
            names = list(dict.fromkeys(remedy_of(other) for other in done))
        way = f", {way_of(case, done)}" if several else ""
        rows += [{"batch": size, **reached_there, "remedy": f"remedy: {name}{way}"} for name in names]
    if len({row["batch"] for row in rows}) < 2:
        return []
    x = Axis("batch", "batch size", log=True)
    return [
        Chart("Test accuracy by batch size", "lines", rows, x, axis(ACCURACY), "remedy"),
        Chart("Training loss by batch size", "lines", rows, x, axis(TRAIN_LOSS), "remedy"),
    ]


def sentences(found: Sequence[Case]) -> Iterator[str]:
    ways = dict.fromkeys(way_of(case, found) for case in found)
    tested = [case for case in found if case.completed and case.value(ACCURACY) is not None]
    for way in ways:
        own = [case for case in tested if way_of(case, found) == way]
        yield from what_it_costs(own, f"{way}: with" if len(ways) > 1 else "With")


def what_it_costs(own: Sequence[Case], begin: str) -> Iterator[str]:
    """The largest batch against the smallest, without a remedy; then what each remedy gives back."""
    plain = [case for case in own if remedy_of(case) == "none"]
    if len(plain) < 2:
        return
    first, last = plain[0], plain[-1]
    yield (
        f"{begin} the same learning rate, batches of {last.figures.batch_size} reach {reached(last)} where batches "
        f"of {first.figures.batch_size} reach {reached(first)}{within(last, first, ACCURACY)}."
    )
    for case in own:
        if remedy_of(case) != "none" and case.figures.batch_size == last.figures.batch_size:
            gain, apart = points(case, last), within(case, last, ACCURACY)
            yield f"{begin} {NAMES[remedy_of(case)]} they reach {reached(case)}: {gain}{apart}."
    yield from one_run_each(own)


def points(case: Case, other: Case) -> str:
    """How much more accurate it is."""
    more = difference(estimate(case, ACCURACY), estimate(other, ACCURACY))
    deviation = deviation_of(more)
    return f"{100 * (mean_of(more) or 0.0):+.1f}{f' ± {100 * deviation:.1f}' if deviation else ''} points"


def reached(case: Case) -> str:
    return ACCURACY.text(case.value(ACCURACY))


NAMES = {"scaling": "a learning rate that grows with the batch, and a warm-up", "lars": "LARS, scaled and warmed up"}
