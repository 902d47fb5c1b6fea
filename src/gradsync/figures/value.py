"""A figure as a value: a number, a mean with its deviation, a text, or nothing; and how it is written."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

NOTHING = "–"
PRECISE = "precise"
TINY = 1e-4  # smaller numbers are written with an exponent
CERTAIN = 2  # standard errors: a larger difference is not chance
STUDENT = (12.7, 4.3, 3.2, 2.8, 2.6, 2.4, 2.4, 2.3, 2.3, 2.2)  # the same, of 1, 2, ... degrees of freedom


@dataclass(frozen=True)
class Spread:
    """The mean of repeated measurements, and their standard deviation."""

    mean: float
    deviation: float

    def __format__(self, form: str) -> str:
        return f"{self.mean:{form}} ± {self.deviation:{form}}"


Value = str | int | float | Spread | None


def over_repeats(values: Iterable[float | None]) -> float | Spread | None:
    """One value for several runs that differ only in their seed; None if any of them has none."""
    found = list(values)
    known = [value for value in found if value is not None]
    if not known or len(known) < len(found):
        return None
    return known[0] if len(known) == 1 else Spread(statistics.fmean(known), statistics.stdev(known))


def mean_of(value: Value) -> float | None:
    """The number of a cell, for arithmetic and charts."""
    if isinstance(value, Spread):
        return value.mean
    return value if isinstance(value, (int, float)) else None


def deviation_of(value: Value) -> float | None:
    return value.deviation if isinstance(value, Spread) else None


def standard_error(value: Value, count: int) -> float | None:
    """Of a mean of ``count`` measurements, from their deviation."""
    deviation = deviation_of(value)
    return None if deviation is None else deviation / max(1, count) ** 0.5


def margin(errors: Iterable[float], freedom: int = 0) -> float:
    """The largest difference that chance explains, given the standard errors of what is compared.

    ``freedom``: the degrees of freedom of errors that come from repeats: few repeats know their variation badly.
    """
    certain = STUDENT[freedom - 1] if 0 < freedom <= len(STUDENT) else CERTAIN
    return certain * math.hypot(*errors)


def scaled(value: Value, factor: float) -> Value:
    """The same in another unit."""
    if isinstance(value, Spread):
        return Spread(value.mean * factor, value.deviation * factor)
    return value if value is None or isinstance(value, str) or factor == 1 else value * factor


def ratio(one: Value, other: Value) -> float | Spread | None:
    """One over the other. Relative deviations are combined as independent errors."""
    above, below = mean_of(one), mean_of(other)
    if above is None or not below:
        return None
    errors = [value.deviation / value.mean for value in (one, other) if isinstance(value, Spread) and value.mean]
    if not errors:
        return above / below
    return Spread(above / below, above / below * math.hypot(*errors))


def difference(one: Value, other: Value) -> float | Spread | None:
    """One less the other. Deviations are combined as independent errors."""
    above, below = mean_of(one), mean_of(other)
    if above is None or below is None:
        return None
    errors = [value.deviation for value in (one, other) if isinstance(value, Spread)]
    return Spread(above - below, math.hypot(*errors)) if errors else above - below


def written(value: Value, form: str = "") -> str:
    """``form``: ``.2f``, ``,d``, ``.1%``; without one three significant digits, with PRECISE four."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    digits = 4 if form == PRECISE else 3
    return format(value, default_form(value, digits) if form in ("", PRECISE) else form)


def percent(share: Value, digits: int = 0, signed: bool = False) -> str:
    """A share as every sentence writes it: 34%, or +34% as a difference."""
    return written(share, f"{'+' if signed else ''}.{digits}%")


def default_form(value: int | float | Spread, digits: int = 3) -> str:
    """``digits`` significant digits, one fewer below 1, and whole numbers in full."""
    size = abs(mean_of(value) or 0.0)
    if isinstance(value, int) or size >= 10 ** (digits - 1):
        return ",d" if isinstance(value, int) else ",.0f"
    if size < 0.1 and size:
        return f".{decimals(size, digits - 1)}f" if isinstance(value, Spread) and size >= TINY else f".{digits - 1}g"
    before = len(str(int(size))) if size >= 1 else 1
    return f".{digits - before}f"


def decimals(size: float, digits: int) -> int:
    """How many decimals show this many significant digits of a number below 1, and also fit its deviation."""
    return digits - 1 - math.floor(math.log10(size))
