"""Whether cases differ by more than chance. Repeats decide that, never the spread within one run each.

Of one run each, the least that must be expected is known: the error of the mean of its steps, or that of drawing
other test samples. A difference within it is undecided. A larger one may still be that between two equal runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.figures.cases import Case
from gradsync.figures.figure import At, Figure
from gradsync.figures.value import Spread, Value, margin, mean_of, standard_error


def is_repeated(found: Sequence[Case]) -> bool:
    """Whether all of them were: only then is their variation from run to run known."""
    return all(len(case.runs) > 1 for case in found)


def is_chance(one: Case, other: Case, figure: Figure) -> bool:
    """Whether chance explains the difference, as far as it is known."""
    first, second = mean_of(one.so_far(figure)) or 0.0, mean_of(other.so_far(figure)) or 0.0
    known = chance([one, other], figure)
    least = 0.0 if figure.learnt and known else figure.noise * max(abs(first), abs(second))
    return abs(first - second) <= max(known, least)


def chance(found: Sequence[Case], figure: Figure) -> float:
    """The largest difference between the means of these cases that chance explains."""
    return margin([error_of(case, figure) for case in found], freedom(found))


def relative_chance(found: Sequence[Case], figure: Figure) -> float:
    """The same for their ratio, as a share of it."""
    means = [abs(mean_of(case.so_far(figure)) or 0.0) for case in found]
    errors = [error_of(case, figure) / mean for case, mean in zip(found, means, strict=True) if mean]
    return margin(errors, freedom(found))


def freedom(found: Sequence[Case]) -> int:
    """Degrees of freedom of the variation from run to run; 0 where it is not known."""
    return sum(len(case.runs) - 1 for case in found) if is_repeated(found) else 0


def error_of(case: Case, figure: Figure) -> float:
    """Standard error of the mean: over repeats, else within the run; 0 where nothing is known about it."""
    errors = [figure.error(At(run)) or 0.0 for run in case.runs if run.summary] if figure.error else []
    if len(case.runs) > 1:
        repeated = standard_error(case.so_far(figure), len(case.runs)) or 0.0
    else:
        varies = figure.of_steps or figure.sums_steps
        repeated = error_of_steps(case) * abs(mean_of(case.so_far(figure)) or 0.0) if varies else 0.0
    return float((max(errors, default=0.0) ** 2 + repeated**2) ** 0.5)


def error_of_steps(case: Case) -> float:
    """Standard error of the time of a step within a run, as a share of it."""
    mean, spread = case.figures.seconds_per_step, case.figures.seconds_per_step_spread
    return spread / mean / max(1, case.figures.timed_steps) ** 0.5 if mean and spread else 0.0


def estimate(case: Case, figure: Figure) -> Value:
    """With the deviation over repeats, else with the standard error of the mean within the run."""
    value = case.so_far(figure)
    mean = mean_of(value)
    if mean is None or len(case.runs) > 1:
        return value
    error = error_of(case, figure)
    return Spread(mean, error) if error else mean
