"""What a figure is: its name, its formula, its unit, how it is written, and how uncertain it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from gradsync.figures.value import Value, scaled, written
from gradsync.ledger.summary import figures_of
from gradsync.record import RankSummary, Run, RunSummary

# Factors from our base units (seconds, bytes, shares) to the units shown.
UNITS = {
    "": 1.0,
    "×": 1.0,
    "s": 1.0,
    "min": 1 / 60,
    "ms": 1e3,
    "%": 100.0,
    "1/s": 1.0,
    "MB": 1e-6,
    "GiB": 2.0**-30,
    "KB/s": 1e-3,
    "MB/s": 1e-6,
    "GB/s": 1e-9,
}


@dataclass(frozen=True)
class At:
    """One run, and what is asked about it: for a rank, at a step or an epoch ``x``."""

    run: Run
    rank: int | None = None
    x: float | None = None

    @cached_property
    def figures(self) -> RunSummary:
        """Of an unfinished run: what its rows show so far."""
        return figures_of(self.run)

    @property
    def of_rank(self) -> RankSummary:
        """Rank 0's if none is named. Servers are numbered after the workers."""
        return everyone(self.figures)[self.rank or 0]


def everyone(figures: RunSummary) -> list[RankSummary]:
    """Workers and servers, by rank."""
    return [*figures.ranks, *figures.servers]


Formula = Callable[[At], float | None]
Compared = Literal["absolute", "relative"]


@dataclass(frozen=True)
class Figure:
    """``of`` gives seconds, bytes, bytes per second, shares or counts; None where the run has no such value."""

    name: str
    """The name in --columns, published files and JSON."""

    title: str
    """The heading of its column."""

    of: Formula
    meaning: str
    """The formula in words, as the note of a table: begins after the title and a colon."""

    unit: str = ""
    """The unit in which it is shown, one of UNITS."""

    form: str = ""
    """How its number is written, as ``value.written`` takes it."""

    deviation: Formula | None = None
    """Standard deviation within one run, where the figure is a mean of many measurements."""

    error: Formula | None = None
    """Standard error of the value of one run, where it is known from something else than the times of its steps."""

    compared: Compared = "relative"
    """absolute: comparable with a value from another machine. relative: only runs of the same machine compare."""

    learnt: bool = False
    """Whether it shows how well the model learned: then it needs real data and whole epochs."""

    of_steps: bool = False
    """Whether it is the mean of the steps in the window."""

    sums_steps: bool = False
    """Whether it is the time of all steps, and so varies as they do."""

    of_run: bool = False
    """Whether it grows with the length of the run."""

    obvious: bool = False
    """Whether the title says it all, so that a table of runs needs no note on it."""

    better: Literal["higher", "lower"] | None = None
    """Of a metric: which of two values is better; None: not known."""

    noise: float = 0.03
    """Two values whose relative difference is smaller count as the same."""

    @property
    def note(self) -> str:
        return f"{self.title}: {self.meaning}"

    @property
    def bare_unit(self) -> str:
        """The unit of its bare numbers, as on an axis: what is written in percent is then in percent."""
        return "%" if self.form.endswith("%") else self.unit

    def text(self, value: Value) -> str:
        """A value, in base units, as it is written everywhere; the unit is left to the sentence."""
        return written(scaled(value, UNITS[self.unit]), self.form)
