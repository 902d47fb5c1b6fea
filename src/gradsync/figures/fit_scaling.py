"""How much of a job is serial: Amdahl's law for a fixed job, Gustafson's for one that grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradsync.figures.value import percent

POOR = 0.2  # a fit that is off by more somewhere does not describe what was measured


@dataclass(frozen=True)
class Law:
    """The share that does not get faster with more workers, and how far the measured speed-ups are from the law."""

    name: str
    serial: float
    largest_error: float
    """The largest |fitted − measured| / measured."""

    speed_up: Callable[[float], float]

    @property
    def is_poor(self) -> bool:
        return self.largest_error > POOR

    def __str__(self) -> str:
        serial, error = percent(self.serial, 1), percent(self.largest_error)
        return f"{self.name}: {serial} of the work is serial (fit off by at most {error})"


def amdahl(workers: Sequence[float], speed_ups: Sequence[float]) -> Law | None:
    """1/S = s + (1 − s)/N. None for fewer than two points with N > 1."""
    pairs = [(1 - 1 / n, 1 / s - 1 / n) for n, s in zip(workers, speed_ups, strict=True) if n > 1]
    return law("Amdahl", pairs, workers, speed_ups, lambda serial: lambda n: 1 / (serial + (1 - serial) / n))


def gustafson(workers: Sequence[float], speed_ups: Sequence[float]) -> Law | None:
    """S = N − s (N − 1)."""
    pairs = [(n - 1, n - s) for n, s in zip(workers, speed_ups, strict=True) if n > 1]
    return law("Gustafson", pairs, workers, speed_ups, lambda serial: lambda n: n - serial * (n - 1))


def law(
    name: str,
    pairs: Sequence[tuple[float, float]],
    workers: Sequence[float],
    speed_ups: Sequence[float],
    curve: Callable[[float], Callable[[float], float]],
) -> Law | None:
    """Both laws are y = s·x: the best s by least squares, which is a share and so lies between 0 and 1."""
    if len(pairs) < 2:
        return None
    serial = sum(x * y for x, y in pairs) / sum(x * x for x, _ in pairs)
    serial = min(1.0, max(0.0, serial))
    fitted = curve(serial)
    errors = [abs(fitted(n) / s - 1) for n, s in zip(workers, speed_ups, strict=True) if n > 1]
    return Law(name, serial, max(errors), fitted)
