"""The losses and metrics that are built in, by name: which of them go together, and what is made of their means."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradsync.config.objects import name_of
from gradsync.config.values import is_reference
from gradsync.errors import InputError, unknown

CROSS_ENTROPY, MSE, BCE = LOSSES = ("cross-entropy", "mse", "bce")
ACCURACY, PERPLEXITY, RMSE = "accuracy", "perplexity", "rmse"
NO_METRIC = "none"

SUITED = {ACCURACY: (CROSS_ENTROPY, BCE), PERPLEXITY: (CROSS_ENTROPY,), RMSE: (MSE,)}
"""Metric -> the built-in losses with which it has a meaning. With the user's own loss, the metric itself decides."""

USUAL = {CROSS_ENTROPY: (ACCURACY,), MSE: (RMSE,), BCE: (ACCURACY,)}
USUAL_FOR_MODEL = {"gpt": (PERPLEXITY,)}  # with cross-entropy


SCALES = {PERPLEXITY: (math.exp, math.log), RMSE: (math.sqrt, lambda figure: figure**2)}
"""Metrics that are not themselves a mean over samples: what makes the figure of the mean that is taken, and back."""

LARGEST = 1e290  # beyond it a figure is as good as infinite


def figure_of(metric: str, mean: float | None) -> float | None:
    """The figure, from a mean over samples; None where it is not finite."""
    try:
        found = SCALES[metric][0](mean) if metric in SCALES and mean is not None else mean
    except (OverflowError, ValueError):
        return None
    return found if found is not None and abs(found) <= LARGEST else None  # False for NaN


def mean_of_figure(metric: str, figure: float | None) -> float | None:
    """The inverse."""
    try:
        return SCALES[metric][1](figure) if metric in SCALES and figure is not None else figure
    except (OverflowError, ValueError):
        return None


def metric_name(metric: str) -> str:
    """What a metric is called in the record: the user's own by the name of its function."""
    return name_of(metric).rpartition(":")[2]


def metrics_for(metrics: Sequence[str], loss: str, model: str) -> tuple[str, ...]:
    """The metrics that were asked for, or the usual ones."""
    if metrics:
        return () if tuple(metrics) == (NO_METRIC,) else tuple(metrics)
    if loss == CROSS_ENTROPY and model in USUAL_FOR_MODEL:
        return USUAL_FOR_MODEL[model]
    return USUAL.get(loss, ())


def check_task(loss: str, metrics: Sequence[str]) -> None:
    if not is_reference(loss) and loss not in LOSSES:
        raise unknown("loss", loss, LOSSES, "Or give your own as path/file.py:function.")
    for metric in metrics:
        if not is_reference(metric) and metric not in (*SUITED, NO_METRIC):
            raise unknown("metric", metric, (*SUITED, NO_METRIC), "Or give your own as path/file.py:function.")
        if metric in SUITED and not is_reference(loss) and loss not in SUITED[metric]:
            raise InputError(
                f"--metric {metric} has no meaning with --loss {loss}: it is for {' and '.join(SUITED[metric])}."
            )
    if NO_METRIC in metrics and len(metrics) > 1:
        raise InputError("--metric names none and others: give none alone.")
    names = [metric_name(metric) for metric in metrics]
    for metric, name in zip(metrics, names, strict=True):
        if names.count(name) > 1 or (is_reference(metric) and name in (*SUITED, NO_METRIC)):
            raise InputError(f"two metrics would be called {name}: give your own function another name.")
