"""How loss fell and accuracy rose: one chart for each model and data set."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from gradsync.exhibit.coinciding import DIGITS, coinciding
from gradsync.exhibit.columns import axis, height
from gradsync.exhibit.form import Axis, Chart, Mark, Section
from gradsync.exhibit.runs.subjects import Subject, of_first
from gradsync.figures.catalogue.of_learning import ACCURACY, TRAIN_LOSS
from gradsync.ledger.summary.learned import tests_of_run
from gradsync.record import rank_records

Curve = list[tuple[int, float]]

MOST_LINES = 10  # in one chart
MOST_POINTS = 120  # of one line


def curve_sections(subjects: Sequence[Subject]) -> list[Section]:
    charts: list[Chart] = []
    sentences: list[str] = []
    for title, group in by_work(subjects):
        shown = group[:MOST_LINES]
        if len(group) > MOST_LINES:
            sentences.append(f"{title}: the first {MOST_LINES} of {len(group)} runs are drawn.")
        losses = {item.name: loss_curve(item) for item in shown}
        of_rank = "Loss of rank 0 before each update; with many steps, a point is the mean of several."
        steps, epochs = Axis("step", "step"), Axis("epoch", "epoch")
        loss, share = axis(TRAIN_LOSS), axis(ACCURACY)
        charts += drawn(f"Training loss: {title}", losses, steps, loss, [of_rank, *of_first(shown)])
        sentences += equal_curves(losses)
        accuracies = {item.name: accuracy_curve(item) for item in shown}
        charts += drawn(f"Test accuracy: {title}", accuracies, epochs, share, of_first(shown))
    return [Section("Loss and accuracy", charts, sentences, detail=True)] if charts else []


def by_work(subjects: Sequence[Subject]) -> list[tuple[str, list[Subject]]]:
    groups: dict[str, list[Subject]] = {}
    for item in subjects:
        groups.setdefault(f"{item.figures.model} on {item.figures.data}", []).append(item)
    return list(groups.items())


def loss_curve(item: Subject) -> Curve:
    """Rank 0's loss before each update, averaged over neighbouring steps where there are many."""
    losses = [(row["step"], row["loss"]) for row in item.run.steps() if "loss" in row]
    width = -(-len(losses) // MOST_POINTS) or 1
    groups = (losses[begin : begin + width] for begin in range(0, len(losses), width))
    return [
        (group[-1][0], statistics.fmean(known))
        for group in groups
        if len(known := [loss for _, loss in group if loss is not None]) == len(group)
    ]


def accuracy_curve(item: Subject) -> Curve:
    """Accuracy after every epoch, as it is drawn. Its last point is the accuracy in the tables."""
    ranks = rank_records(item.run.folder, len(item.figures.ranks), stamps_until=0)
    tests = tests_of_run(ranks, {worker.rank for worker in item.figures.lost})
    return [(test.epoch, share) for test in tests if (share := height(test.accuracy, ACCURACY)) is not None]


def drawn(title: str, curves: dict[str, Curve], x: Axis, y: Axis, notes: Sequence[str]) -> Iterator[Chart]:
    rows: list[Mark] = [
        {x.field: at, y.field: value, "run": name} for name, curve in curves.items() for at, value in curve
    ]
    if len({row[x.field] for row in rows}) > 1:
        yield Chart(title, "lines", rows, x, y, "run", notes=notes)


def equal_curves(curves: dict[str, Curve]) -> Iterator[str]:
    for names in coinciding({name: curve for name, curve in curves.items() if curve}):
        if len(names) > 1:
            yield (
                f"{', '.join(names[:-1])} and {names[-1]} have the same training loss, to {DIGITS} digits, "
                "at every point of the chart."
            )
