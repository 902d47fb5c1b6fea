"""What differs between the workers of one run: when each finished, its staleness and its metrics."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.config.values import counted
from gradsync.exhibit.columns import axis, cell_so_far, column
from gradsync.exhibit.form import Axis, Chart, Column, Exhibit, Section, Table
from gradsync.exhibit.runs.subjects import Subject, of_first
from gradsync.figures.catalogue.of_learning import DROPPED, STALENESS, STEPS, TEST_LOSS
from gradsync.figures.catalogue.of_time import FINISH
from gradsync.figures.figure import Figure
from gradsync.figures.metrics import IN_TRAINING, metric_figure, metrics_of
from gradsync.figures.value import Value
from gradsync.record import RunSummary
from gradsync.record.summaries import Staleness
from gradsync.text import with_article

OF_WORKER = (FINISH, STEPS, STALENESS, DROPPED)
EPOCHS = 5  # the last ones, of which a metric is shown


def worker_sections(subjects: Sequence[Subject]) -> list[Section]:
    """For runs with servers, and for runs whose ranks end with different models."""
    served = [item for item in subjects if item.figures.updates and (len(subjects) == 1 or is_stale(item.figures))]
    exhibits: list[Exhibit] = [exhibit for item in served for exhibit in of_run(item)]
    found = [Section("Workers of parameter servers", exhibits)] if exhibits else []
    if apart := [item for item in subjects if has_own_models(item.figures)]:
        metrics = own_metrics(apart)
        names = " and ".join(each.title for each in metrics) or "test loss"
        sentence = f"Ranks end with different models, so each has {with_article(names)} of its own."
        found.append(Section(f"{names.capitalize()} of each rank", [ranks_table(apart, metrics)], [sentence]))
    return found


def of_run(item: Subject) -> list[Exhibit]:
    exhibits: list[Exhibit] = [workers_table(item)]
    if item.figures.staleness and is_stale(item.figures):
        exhibits.append(histogram(item, item.figures.staleness))
    return exhibits


def workers_table(item: Subject) -> Table:
    figures = item.figures
    epochs = sorted({each.epoch for rank in figures.ranks for each in rank.epochs})[-EPOCHS:]
    metrics = own_metrics([item])[:1]
    columns = [
        Column("worker"),
        *map(column, OF_WORKER),
        *(Column(f"{each.title}, epoch {epoch}", "", each.form) for each in metrics for epoch in epochs),
    ]
    rows: list[list[Value]] = []
    for rank in figures.ranks:
        reached = {each.epoch: each.metrics for each in rank.epochs}
        row: list[Value] = [f"worker {rank.rank}", *(cell_so_far(item.case, each, rank.rank) for each in OF_WORKER)]
        rows.append([*row, *(reached.get(epoch, {}).get(each.name) for each in metrics for epoch in epochs)])
    title = f"{item.name}, {counted(figures.world_size, 'worker')}: {figures.updates:,} updates of the parameters"
    meanings = f"{FINISH.note}; {STALENESS.note}; {DROPPED.note}."
    notes = [meanings, *of_first([item])]
    return Table(title, columns, rows, notes)


def is_stale(figures: RunSummary) -> bool:
    """Whether gradients were applied late or dropped: where all workers wait for each other, none are."""
    return bool(figures.staleness and (figures.staleness.max or figures.staleness.dropped))


def histogram(item: Subject, staleness: Staleness) -> Chart:
    rows = [{STALENESS.name: int(value), "gradients": count} for value, count in staleness.histogram.items()]
    rows.sort(key=lambda row: row[STALENESS.name])
    were = "was" if staleness.dropped == 1 else "were"
    dropped = [f"In addition, {counted(staleness.dropped, 'gradient')} {were} dropped."] if staleness.dropped else []
    title = f"{item.name}: gradients by their staleness"
    x, y = axis(STALENESS), Axis("gradients", "gradients")
    return Chart(title, "bars", rows, x, y, notes=dropped)  # type: ignore[arg-type] # whole numbers are values


def has_own_models(figures: RunSummary) -> bool:
    """Whether ranks tested their own models and these differ. Workers of servers have a table of their own."""
    tests = [rank.test for rank in figures.ranks if rank.test]
    return not figures.updates and any(test != tests[0] for test in tests)


def own_metrics(subjects: Sequence[Subject]) -> list[Figure]:
    """Of their tests."""
    names = metrics_of(item.figures for item in subjects)
    return [metric_figure(name) for name in names if not name.startswith(IN_TRAINING)]


def ranks_table(subjects: Sequence[Subject], metrics: Sequence[Figure]) -> Table:
    shown = [TEST_LOSS, *metrics]
    rows: list[list[Value]] = [
        [item.name, f"rank {rank.rank}", *(cell_so_far(item.case, each, rank.rank) for each in shown)]
        for item in subjects
        for rank in item.figures.ranks
        if rank.test
    ]
    title = " and ".join(["Test loss", *(each.title for each in metrics)])
    return Table(f"{title}, rank by rank", [Column("run"), Column("rank"), *map(column, shown)], rows)
