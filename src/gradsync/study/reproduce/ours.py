"""Our figures for the rows and claims of a report, and how far they can be trusted."""

from __future__ import annotations

from gradsync.config.values import counted
from gradsync.figures.cases import Case
from gradsync.figures.catalogue import find_figure
from gradsync.figures.catalogue.of_learning import accuracy_deviation
from gradsync.figures.catalogue.of_time import SAMPLES, standard_error
from gradsync.figures.figure import At, Figure
from gradsync.figures.speed_up import rate
from gradsync.figures.value import Spread, Value, mean_of, ratio
from gradsync.record import Run

SPEED_UP = Figure(
    "speed-up",
    "speed-up",
    SAMPLES.of,
    "throughput over that of the run it is compared with",
    compared="absolute",
    of_steps=True,
)

# What a table or chart of one figure alone is called, where the heading of a column would be too short.
TITLES = {
    "step": "time of a step",
    "epoch": "time of an epoch",
    "read": "reading the data",
    "train": "time of training",
    "total": "time of the whole program",
    "samples": "samples per second",
    "accuracy": "test accuracy",
    "train-loss": "training loss of the last epoch",
    "sent-step": "sent in a step",
    "received-step": "received in a step",
    "gradients-step": "gradients in a step",
    "buffers-step": "BatchNorm statistics in a step",
    "compute": "computing in an epoch",
    "communication": "communicating in an epoch",
}


def figure_of(name: str) -> Figure:
    """The figure with this name in the published files."""
    return SPEED_UP if name == SPEED_UP.name else find_figure(name)


def title_of(name: str) -> str:
    return TITLES.get(name, figure_of(name).title)


def value_of(
    name: str, case: Case, rank: int | None = None, x: float | None = None, against: Case | None = None
) -> Value:
    """In seconds, bytes or shares; over repeats mean and deviation; None if the runs do not show it."""
    value: Value
    if name == SPEED_UP.name:
        value = ratio(rate(case), rate(against)) if against and case.completed and against.completed else None
    else:
        value = case.value(figure_of(name), rank, x)
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
    if isinstance(value, Spread):
        return value.deviation / abs(value.mean) / len(case.runs) ** 0.5 if value.mean else 0.0
    if not figure_of(name).of_steps or not case.completed:
        return 0.0
    error, step = standard_error(At(case.run)), case.figures.seconds_per_step
    return error / step if error and step else 0.0


def accuracy_error(case: Case) -> float:
    """Standard error of a test accuracy: of drawing other test samples, and of training from another seed."""
    sampled = max((error_of_test(run) for run in case.runs), default=0.0)
    between = value_of("accuracy", case)
    repeated = between.deviation / len(case.runs) ** 0.5 if isinstance(between, Spread) else 0.0
    return (sampled**2 + repeated**2) ** 0.5


def error_of_test(run: Run) -> float:
    return accuracy_deviation(At(run)) or 0.0 if run.summary else 0.0
