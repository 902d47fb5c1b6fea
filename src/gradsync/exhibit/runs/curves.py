"""How the loss fell and what became of the metrics: one chart for each model and data set."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from gradsync.exhibit.coinciding import DIGITS, coinciding
from gradsync.exhibit.columns import axis, height
from gradsync.exhibit.form import Axis, Chart, Mark, Section
from gradsync.exhibit.runs.subjects import Subject, of_first
from gradsync.figures.catalogue.of_learning import TRAIN_LOSS
from gradsync.figures.figure import Figure
from gradsync.figures.metrics import IN_TRAINING, metric_figure, metrics_of
from gradsync.ledger.summary.learned import tests_of_run
from gradsync.record import rank_records
from gradsync.text import joined

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
        loss = axis(TRAIN_LOSS)
        charts += drawn(f"Training loss: {title}", losses, steps, loss, [of_rank, *of_first(shown)])
        sentences += equal_curves(losses)
        for name in metrics_of(item.figures for item in shown):
            metric = metric_figure(name)
            curves = {item.name: metric_curve(item, metric) for item in shown}
            heading = metric.title if name.startswith(IN_TRAINING) else f"test {metric.title}"
            charts += drawn(f"{heading.capitalize()}: {title}", curves, epochs, axis(metric), of_first(shown))
    names = dict.fromkeys(name.removeprefix(IN_TRAINING) for name in metrics_of(item.figures for item in subjects))
    heading = " and ".join(filter(None, ["Loss", ", ".join(names)]))
    return [Section(heading, charts, sentences, detail=True)] if charts else []


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


def metric_curve(item: Subject, metric: Figure) -> Curve:
    """A metric after every epoch, as it is drawn. Its last point is the figure in the tables."""
    if metric.name.startswith(IN_TRAINING):
        found = item.figures.train_metrics.get(metric.name.removeprefix(IN_TRAINING), [])
        return [(epoch, value) for epoch, each in enumerate(found, 1) if (value := height(each, metric)) is not None]
    ranks = rank_records(item.run.folder, len(item.figures.ranks), stamps_until=0)
    tests = tests_of_run(ranks, {worker.rank for worker in item.figures.lost})
    values = [(test.epoch, height(test.metrics.get(metric.name), metric)) for test in tests]
    return [(epoch, value) for epoch, value in values if value is not None]


def drawn(title: str, curves: dict[str, Curve], x: Axis, y: Axis, notes: Sequence[str]) -> Iterator[Chart]:
    rows: list[Mark] = [
        {x.field: at, y.field: value, "run": name} for name, curve in curves.items() for at, value in curve
    ]
    if len({row[x.field] for row in rows}) > 1:
        yield Chart(title, "lines", rows, x, y, "run", notes=notes)


def equal_curves(curves: dict[str, Curve]) -> Iterator[str]:
    for names in coinciding({name: curve for name, curve in curves.items() if curve}):
        if len(names) > 1:
            yield (f"{joined(names)} have the same training loss, to {DIGITS} digits, at every point of the chart.")
