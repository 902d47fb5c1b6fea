"""What large batches do to accuracy after the same number of epochs, and what the remedies give back.

The remedies are those of Goyal et al. (2017): a learning rate that grows with the batch, reached over the first
epochs. LARS (You et al. 2017) is there as a third way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from gradsync.config import LEARNING_RATE, RunConfig
from gradsync.errors import InputError
from gradsync.exhibit import Axis, Chart, Column, Section, Table, Value, mean_of
from gradsync.record import Run
from gradsync.study.cases import (
    Case,
    accuracy,
    cases,
    remarks,
    test_loss,
    train_accuracy,
    train_loss,
    way_of,
    with_remark,
)
from gradsync.study.settings import Study

Remedy = Literal["none", "scaling", "lars"]

EPOCHS = 5
BATCHES = (32, 128, 512)
MOST_WARMUP = 5.0


@dataclass(kw_only=True)
class LargeBatch(Study):
    """Accuracy and loss after --epochs epochs by batch size, with the same learning rate and with the remedies."""

    batch_sizes: tuple[int, ...] = BATCHES
    """Samples per step over all workers; the first one is what --lr is meant for."""

    remedies: tuple[Remedy, ...] = ("none", "scaling")
    """none: one learning rate for all; scaling: it grows with the batch, with a warm-up; lars: and LARS with it."""

    train_accuracy: bool = True
    """Also count how many samples of each training batch are recognised."""

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
            if remedy == "none" or size != self.batch_sizes[0]  # where there is nothing to remedy
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
        optimizer = "lars" if remedy == "lars" else self.optimizer
        base = LEARNING_RATE["lars"] if remedy == "lars" else self.lr or LEARNING_RATE[self.optimizer]
        return {"lr": base * growth, "warmup_epochs": warmup, "optimizer": optimizer}

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        return [Section("Large batches", [table(found), *charts(found)], list(sentences(found)))] if found else []


def remedy_of(case: Case) -> str:
    """How its learning rate was chosen, from its settings: what has no warm-up has no remedy."""
    if not case.setting["warmup_epochs"]:
        return "none"
    return "lars" if case.setting["optimizer"] == "lars" else "scaling"


def table(found: Sequence[Case]) -> Table:
    epochs = max((len(case.figures["train_loss"]) for case in found if case.completed), default=0)
    columns = [
        Column("strategy"),
        Column("batch size"),
        Column("remedy"),
        Column("learning rate", "", ".3g"),
        Column("updates"),
        Column("training loss"),
        Column("training accuracy", "", ".2%"),
        Column("test loss"),
        Column("test accuracy", "", ".2%"),
        *remarks(found),
    ]
    rows = []
    for case in found:
        row: list[Value] = [way_of(case, found), case.figures["batch_size"], remedy_of(case)]
        row += [case.figures["lr"], case.figures["steps"]]
        row += [case.of(figure) for figure in (train_loss, train_accuracy, test_loss, accuracy)]
        rows.append(with_remark(case, columns, row))
    notes = [f"training loss and accuracy: mean of epoch {epochs}, of each batch before its update; test: after it."]
    return Table(f"Loss and accuracy of epoch {epochs} by batch size", columns, rows, notes)


def charts(found: Sequence[Case]) -> list[Chart]:
    done = [case for case in found if case.completed and case.of(accuracy) is not None]
    smallest = min((case.figures["batch_size"] for case in done), default=0)
    several = len({way_of(case, done) for case in done}) > 1
    rows: list[dict[str, str | int | float | None]] = []
    for case in done:
        size, value, loss = case.figures["batch_size"], mean_of(case.of(accuracy)), mean_of(case.of(train_loss))
        names = [remedy_of(case)]
        if size == smallest:  # where every line begins
            names = list(dict.fromkeys(remedy_of(other) for other in done))
        way = f", {way_of(case, done)}" if several else ""
        rows += [
            {"batch": size, "accuracy": 100 * (value or 0.0), "loss": loss, "remedy": f"remedy: {name}{way}"}
            for name in names
        ]
    if len({row["batch"] for row in rows}) < 2:
        return []
    x = Axis("batch", "samples in a batch", log=True)
    return [
        Chart(
            "Test accuracy by batch size", "lines", rows, x, Axis("accuracy", "accuracy", "%", zero=False), "remedy"
        ),
        Chart("Training loss by batch size", "lines", rows, x, Axis("loss", "training loss", zero=False), "remedy"),
    ]


def sentences(found: Sequence[Case]) -> Iterator[str]:
    plain = [case for case in found if case.completed and remedy_of(case) == "none" and case.of(accuracy) is not None]
    if len(plain) < 2:
        return
    first, last = plain[0], plain[-1]
    before, after = mean_of(first.of(accuracy)) or 0.0, mean_of(last.of(accuracy)) or 0.0
    yield (
        f"With the same learning rate, batches of {last.figures['batch_size']} reach {after:.1%} where batches of "
        f"{first.figures['batch_size']} reach {before:.1%}."
    )
    for case in found:
        if case.completed and remedy_of(case) != "none" and case.figures["batch_size"] == last.figures["batch_size"]:
            value = mean_of(case.of(accuracy)) or 0.0
            yield f"With {NAMES[remedy_of(case)]} they reach {value:.1%}: {(value - after) * 100:+.1f} points."


NAMES = {"scaling": "a learning rate that grows with the batch, and a warm-up", "lars": "LARS, scaled and warmed up"}
