"""Columns of a table of runs: figures of the catalogue and facts of the runs, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.config import Settings
from gradsync.config.task import metric_name, metrics_for
from gradsync.errors import unknown
from gradsync.exhibit.form import Axis, Column
from gradsync.figures.cases import Case
from gradsync.figures.catalogue import FIGURES
from gradsync.figures.catalogue.of_speed_up import Relative
from gradsync.figures.figure import UNITS, Figure, FigureOf, Of
from gradsync.figures.metrics import IN_TRAINING, metric_figure
from gradsync.figures.value import Value, mean_of, scaled
from gradsync.record import RunSummary

DEFAULT = ("workers", "step", "speed-up", "efficiency", "samples", "epoch", "train-loss", "test-loss")
"""Followed by the metrics of the runs."""


def column(figure: FigureOf[Any]) -> Column:
    return Column(figure.title, figure.unit, figure.form)


def cell_of(subject: Of, figure: FigureOf[Of]) -> Value:
    """The value for one subject, in the unit of its column."""
    return scaled(figure.value(subject), UNITS[figure.unit])


def cell(case: Case, figure: Figure, rank: int | None = None, among: Sequence[Case] = ()) -> Value:
    """The value in the unit of its column; None unless the case was completed.

    ``among``: the cases that a relative figure finds its baseline in.
    """
    return cell_so_far(case, figure, rank, among) if case.completed else None


def cell_so_far(case: Case, figure: Figure, rank: int | None = None, among: Sequence[Case] = ()) -> Value:
    """The same, but also for a run that failed or has not ended: as far as it got."""
    value = figure.among(case, among) if isinstance(figure, Relative) else case.so_far(figure, rank)
    return scaled(value, UNITS[figure.unit])


def axis(figure: FigureOf[Any], log: bool = False) -> Axis:
    """Of a chart whose rows have the figure under its own name, as ``heights`` gives it.

    A loss or an accuracy varies little beside what it is: its axis need not begin at 0.
    """
    return Axis(
        figure.name, figure.title, figure.bare_unit, log=log, zero=not (isinstance(figure, Figure) and figure.learnt)
    )


def height(value: Value, figure: FigureOf[Any]) -> float | None:
    """A value, in base units, as a number on the axis of its figure."""
    return mean_of(scaled(value, UNITS[figure.bare_unit]))


def heights(case: Case, *figures: Figure, rank: int | None = None) -> dict[str, float | None]:
    """Figures of a case, by name, for the rows of a chart."""
    return {figure.name: height(case.so_far(figure, rank), figure) for figure in figures}


@dataclass(frozen=True)
class Choice:
    """A column of a table of runs, and how its values are obtained."""

    column: Column
    value: Callable[[Case, Sequence[Case]], Value]
    """The value of a case, given all cases that are shown."""

    note: str = ""


def of_figure(figure: Figure) -> Choice:
    note = "" if figure.obvious else figure.note
    return Choice(column(figure), lambda case, found: cell_so_far(case, figure, among=found), note)


def fact(title: str, of: Callable[[RunSummary], Value]) -> Choice:
    return Choice(Column(title), lambda case, found: of(case.figures))


COLUMNS: dict[str, Choice] = {
    "workers": fact("workers", lambda figures: figures.world_size),
    "servers": fact("servers", lambda figures: figures.server_count or None),
    "nodes": fact("nodes", lambda figures: figures.nodes),
    "transport": fact("transport", lambda figures: figures.transport),
    "batch": fact("batch", lambda figures: figures.batch_size),
    "threads": fact("threads", lambda figures: figures.threads),
    **{name: of_figure(figure) for name, figure in FIGURES.items()},
}


def metric_names(asked: Settings) -> list[str]:
    return [metric_name(each) for each in metrics_for(asked.metric, asked.loss, asked.model)]


def choose(names: Sequence[str], metrics: Sequence[str] = ()) -> dict[str, Choice]:
    """``metrics``: the names of those the runs have, among them the user's own."""
    own = {name: of_figure(metric_figure(name)) for metric in metrics for name in (metric, IN_TRAINING + metric)}
    known = own | COLUMNS
    for name in names:
        if name not in known:
            raise unknown("column", name, known)
    return {name: known[name] for name in names or DEFAULT}
