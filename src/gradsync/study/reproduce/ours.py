"""Our figures for the rows and claims of a report, and how far they can be trusted."""

from __future__ import annotations

from gradsync.config.values import counted
from gradsync.figures.cases import Case
from gradsync.figures.catalogue import find_figure
from gradsync.figures.catalogue.of_speed_up import Relative
from gradsync.figures.value import Value, mean_of


def value_of(
    name: str, case: Case, rank: int | None = None, x: float | None = None, against: Case | None = None
) -> Value:
    """In seconds, bytes or shares; None if the runs do not show it.

    Over repeats mean and deviation. A speed-up has its uncertainty also where there is one run each.
    """
    figure = find_figure(name)
    if isinstance(figure, Relative):
        return figure.against(case, against) if against else None
    value = case.value(figure, rank, x)
    return value if len(case.runs) > 1 else mean_of(value)


def timed_steps(case: Case) -> int:
    return min((run.summary.timed_steps for run in case.runs if run.summary), default=0)


def not_learnt(case: Case) -> str:
    """Why its losses and accuracies mean nothing; empty if they do mean something."""
    if case.setting["data"] == "synthetic":
        return "synthetic data"
    figures = case.figures
    if not figures.epoch_seconds:
        return f"{counted(figures.steps, 'step')} of {figures.steps_per_epoch} in an epoch"
    return ""
