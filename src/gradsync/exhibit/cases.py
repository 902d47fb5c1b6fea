"""A table with a row for each case of a study: what distinguishes it, then figures of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gradsync.exhibit.columns import cell, column
from gradsync.exhibit.form import Column, Table
from gradsync.exhibit.runs.table import deviations
from gradsync.figures.cases import Case
from gradsync.figures.catalogue.of_learning import ACCURACY, TRAIN_ACCURACY
from gradsync.figures.figure import Figure
from gradsync.figures.metrics import metric_figure, metrics_of
from gradsync.figures.value import Spread, Value

Fact = Callable[[Case], Value]

STRATEGY: dict[str, Fact] = {"strategy": lambda case: case.figures.strategy}
WORKERS: dict[str, Fact] = {"workers": lambda case: case.figures.world_size}
BATCH: dict[str, Fact] = {"batch size": lambda case: case.figures.batch_size}


def share_of(case: Case) -> int:
    """Samples per step and worker."""
    return case.figures.batch_size // case.figures.world_size


def meant(item: Figure | tuple[Column, Fact], found: Sequence[Case]) -> Sequence[Figure | tuple[Column, Fact]]:
    """What has no meaning for the task of these runs is left out."""
    metrics = metrics_of(case.figures for case in found)
    if item is ACCURACY:
        return [metric_figure(name) for name in metrics]
    return [] if item is TRAIN_ACCURACY and ACCURACY.name not in metrics else [item]


def case_table(
    title: str,
    found: Sequence[Case],
    facts: Mapping[str, Fact],
    figures: Sequence[Figure | tuple[Column, Fact]],
    notes: Sequence[str] = (),
) -> Table:
    """``figures``: figures of the catalogue, or columns with their values. A last column says why a case has none.

    Accuracy stands for the metrics that the runs have.
    """
    figures = [each for item in figures for each in meant(item, found)]
    columns = [*map(Column, facts), *(item[0] if isinstance(item, tuple) else column(item) for item in figures)]
    rows = [
        [
            *(fact(case) for fact in facts.values()),
            *(item[1](case) if isinstance(item, tuple) else cell(case, item, among=found) for item in figures),
        ]
        for case in found
    ]
    if any(case.remark for case in found):
        columns.append(Column("remark"))
        rows = [[*row, case.remark] for case, row in zip(found, rows, strict=True)]
    meanings = "; ".join(item.note for item in figures if isinstance(item, Figure) and not item.obvious)
    spread = any(isinstance(value, Spread) for row in rows for value in row)
    kept = [*(deviations(found) if spread else ()), *([f"{meanings}."] if meanings else []), *notes]
    return Table(title, columns, rows, kept)
