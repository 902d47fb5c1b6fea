"""Columns of a table of runs: figures of the catalogue and facts of the runs, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradsync.errors import unknown
from gradsync.exhibit.form import Column
from gradsync.figures.cases import Case
from gradsync.figures.catalogue import FIGURES
from gradsync.figures.figure import UNITS, Figure
from gradsync.figures.speed_up import is_one_process, speed_up
from gradsync.figures.value import Value, scaled
from gradsync.record import RunSummary

DEFAULT = ("workers", "step", "speed-up", "efficiency", "samples", "epoch", "train-loss", "test-loss", "accuracy")


def column(figure: Figure) -> Column:
    return Column(figure.title, figure.unit, figure.form)


def cell(case: Case, figure: Figure, rank: int | None = None) -> Value:
    """The value in the unit of its column; None unless the case was completed."""
    return cell_so_far(case, figure, rank) if case.completed else None


def cell_so_far(case: Case, figure: Figure, rank: int | None = None) -> Value:
    """The same, but also for a run that failed or has not ended: as far as it got."""
    return scaled(case.so_far(figure, rank), UNITS[figure.unit])


@dataclass(frozen=True)
class Choice:
    """A column of a table of runs, and how its values are obtained."""

    column: Column
    value: Callable[[Case, Sequence[Case]], Value]
    """The value of a case, given all cases that are shown."""

    note: str = ""


def of_figure(figure: Figure) -> Choice:
    note = "" if figure.obvious else figure.note
    return Choice(column(figure), lambda case, found: cell_so_far(case, figure), note)


def fact(title: str, of: Callable[[RunSummary], Value]) -> Choice:
    return Choice(Column(title), lambda case, found: of(case.figures))


def ratio_of(case: Case, found: Sequence[Case]) -> Value:
    """One process is the baseline: 1, unless nothing is compared with it."""
    item = speed_up(case, found)
    return item.ratio if item else 1.0 if is_one_process(case) and has_speed_ups(found) else None


def efficiency_of(case: Case, found: Sequence[Case]) -> Value:
    item = speed_up(case, found)
    return item.efficiency if item else None


def has_speed_ups(found: Sequence[Case]) -> bool:
    return any(speed_up(case, found) for case in found)


COLUMNS: dict[str, Choice] = {
    "workers": fact("workers", lambda figures: figures.world_size),
    "servers": fact("servers", lambda figures: figures.server_count or None),
    "nodes": fact("nodes", lambda figures: figures.nodes),
    "transport": fact("transport", lambda figures: figures.transport),
    "batch": fact("batch", lambda figures: figures.batch_size),
    "threads": fact("threads", lambda figures: figures.threads),
    "speed-up": Choice(
        Column("speed-up", "×", ".2f"),
        ratio_of,
        "speed-up: throughput over that of one process with the same work on the same hardware",
    ),
    "efficiency": Choice(
        Column("efficiency", "", ".0%"),
        efficiency_of,
        "efficiency: speed-up divided by the ideal, the ratio of the workers' cores or GPUs to those of one process",
    ),
    **{name: of_figure(figure) for name, figure in FIGURES.items()},
}


def choose(names: Sequence[str]) -> dict[str, Choice]:
    for name in names:
        if name not in COLUMNS:
            raise unknown("column", name, COLUMNS)
    return {name: COLUMNS[name] for name in names or DEFAULT}
