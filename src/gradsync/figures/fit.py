"""Two numbers for a curve of times, t = α + moved/β, with the error of that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fit:
    """The cost of every operation, the cost of every byte, and the error of the fit."""

    alpha_seconds: float
    beta_bytes_per_second: float | None
    """None: the time does not grow with the bytes."""

    rms_error: float
    """Root mean square of (fitted − measured) / measured."""

    largest_error: float
    """The largest of these, in absolute value."""

    def seconds(self, moved: float) -> float:
        return self.alpha_seconds + (moved / self.beta_bytes_per_second if self.beta_bytes_per_second else 0.0)


def fit(moved: Sequence[float], seconds: Sequence[float]) -> Fit:
    """Least squares of the relative errors, so that microseconds count as much as seconds do.

    ``moved``: bytes that cross the busiest link, with at least two different values. Neither α nor β is ever
    negative: where the best straight line has one below 0, the best line with 0 in its place is taken.
    """
    if len(set(moved)) < 2:
        raise ValueError("a fit needs two sizes or more")
    times, most = np.asarray(seconds, float), max(moved)
    # Both columns are near 1 / t, whatever the units: bytes are scaled by those of the largest message.
    columns = np.stack([np.ones_like(times), np.asarray(moved, float) / most], axis=1) / times[:, None]
    alpha, slope = np.linalg.lstsq(columns, np.ones_like(times), rcond=None)[0]
    if alpha < 0:
        alpha, slope = 0.0, alone(columns[:, 1])
    elif slope <= 0:
        alpha, slope = alone(columns[:, 0]), 0.0
    errors = columns @ np.array([alpha, slope]) - 1
    return Fit(
        alpha_seconds=float(alpha),
        beta_bytes_per_second=float(most / slope) if slope else None,
        rms_error=float(np.sqrt(np.mean(errors**2))),
        largest_error=float(np.max(np.abs(errors))),
    )


def alone(column: np.ndarray) -> float:
    """The best factor for one column when that of the other is 0."""
    return float(column.sum() / (column @ column))
