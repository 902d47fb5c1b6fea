"""Our figures for the rows and claims of a report, and how far they can be trusted."""

from __future__ import annotations

from gradsync.config.values import counted
from gradsync.figures.cases import Case
from gradsync.figures.catalogue import find_figure
from gradsync.figures.catalogue.of_learning import accuracy_deviation
from gradsync.figures.catalogue.of_speed_up import Relative
from gradsync.figures.catalogue.of_time import STEP
from gradsync.figures.figure import At
from gradsync.figures.value import Value, deviation_of, mean_of, standard_error
from gradsync.record import Run


def value_of(
    name: str, case: Case, rank: int | None = None, x: float | None = None, against: Case | None = None
) -> Value:
    """In seconds, bytes or shares; over repeats mean and deviation; None if the runs do not show it."""
    figure = find_figure(name)
    value: Value
    if isinstance(figure, Relative):
        value = figure.against(case, against) if against else None
    else:
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


def relative_error(name: str, case: Case) -> float:
    """Standard error of a figure, as a share of it: from repeats, else from the spread of the steps within a run."""
    value = value_of(name, case)
    if deviation_of(value) is None and find_figure(name).of_steps:
        value = case.value(STEP)
    count = len(case.runs) if len(case.runs) > 1 else case.figures.timed_steps
    error, mean = standard_error(value, count), mean_of(value)
    return error / abs(mean) if error and mean else 0.0


def accuracy_error(case: Case) -> float:
    """Standard error of a test accuracy: of drawing other test samples, and of training from another seed."""
    sampled = max((error_of_test(run) for run in case.runs), default=0.0)
    repeated = standard_error(value_of("accuracy", case), len(case.runs)) or 0.0
    return (sampled**2 + repeated**2) ** 0.5


def error_of_test(run: Run) -> float:
    return accuracy_deviation(At(run)) or 0.0 if run.summary else 0.0
