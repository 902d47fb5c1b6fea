"""The metrics of runs as figures: those of the catalogue, and the user's own, which no catalogue can list."""

from __future__ import annotations

from collections.abc import Iterable

from gradsync.config.task import ACCURACY, SUITED
from gradsync.figures.catalogue import FIGURES
from gradsync.figures.catalogue.of_learning import tested, trained
from gradsync.figures.figure import Figure
from gradsync.figures.value import PRECISE
from gradsync.record import RunSummary

IN_TRAINING = "train-"
"""Before the name of a metric: over the last epoch of training, instead of the test set."""


def metric_figure(name: str) -> Figure:
    """A metric by its name; one of the catalogue has its own way to be written."""
    of_training = name.startswith(IN_TRAINING)
    metric = name.removeprefix(IN_TRAINING)
    if metric in SUITED and name in FIGURES:
        return FIGURES[name]
    known = FIGURES[metric] if metric in SUITED else None
    return Figure(
        name,
        f"training {metric}" if of_training else name,
        trained(metric) if of_training else tested(metric),
        f"{metric}, mean over the {'last epoch of training' if of_training else 'test set'}",
        form=known.form if known else PRECISE,
        compared="absolute",
        learnt=True,
        obvious=not of_training,
        better=known.better if known else None,
    )


def metrics_of(figures: Iterable[RunSummary]) -> list[str]:
    """The names of the metrics of these runs: of their tests, or of their training where none was tested."""
    every = list(figures)
    tested = [name for each in every for name in (metrics_tested(each))]
    if not any(each.test for each in every):
        tested += [f"{IN_TRAINING}{name}" for each in every if not each.metrics for name in each.train_metrics]
    return list(dict.fromkeys(tested))


def metrics_tested(figures: RunSummary) -> list[str]:
    return [ACCURACY] if figures.metrics is None else figures.metrics
