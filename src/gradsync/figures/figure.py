"""What a figure is: its name, its formula, its unit, how it is written, and how uncertain it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar

from gradsync.figures.value import Spread, Value, mean_of, scaled, written
from gradsync.ledger.summary import figures_of
from gradsync.record import RankSummary, Run, RunSummary

# Factors from our base units (seconds, bytes, shares) to the units shown.
UNITS = {
    "": 1.0,
    "×": 1.0,
    "s": 1.0,
    "min": 1 / 60,
    "ms": 1e3,
    "µs": 1e6,
    "%": 100.0,
    "1/s": 1.0,
    "MB": 1e-6,
    "GiB": 2.0**-30,
    "KB/s": 1e-3,
    "MB/s": 1e-6,
    "GB/s": 1e-9,
    "Gbit/s": 8e-9,
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


Of = TypeVar("Of", contravariant=True)
Formula = Callable[[At], float | None]
Compared = Literal["absolute", "relative"]


@dataclass(frozen=True)
class FigureOf(Generic[Of]):
    """``of`` gives seconds, bytes, bytes per second, shares or counts; None where its subject has no such value."""

    name: str
    """The name in --columns, published files and JSON."""

    title: str
    """The heading of its column."""

    of: Callable[[Of], Value]
    meaning: str
    """The formula in words, as the note of a table: begins after the title and a colon."""

    unit: str = ""
    """The unit in which it is shown, one of UNITS."""

    form: str = ""
    """How its number is written, as ``value.written`` takes it."""

    deviation: Callable[[Of], float | None] | None = None
    """Standard deviation within one subject, where the figure is a mean of many measurements."""

    in_full: str = ""
    """What a table or a chart of it alone is called, where its title would be too short."""

    @property
    def full_title(self) -> str:
        return self.in_full or self.title

    @property
    def note(self) -> str:
        return f"{self.title}: {self.meaning}"

    @property
    def bare_unit(self) -> str:
        """The unit of its bare numbers, as on an axis: what is written in percent is then in percent."""
        return "%" if self.form.endswith("%") else self.unit

    def form_in(self, unit: str) -> str:
        """How its bare number is written in a unit: in its own as everywhere, in another with significant digits."""
        if unit != self.bare_unit:
            return ""
        return f"{self.form[:-1]}f" if self.form.endswith("%") else self.form

    def value(self, subject: Of) -> Value:
        """In base units, with its deviation where that is known."""
        found, deviation = self.of(subject), self.deviation(subject) if self.deviation else None
        mean = mean_of(found)
        return found if mean is None or deviation is None else Spread(mean, deviation)

    def text(self, value: Value) -> str:
        """A value, in base units, as it is written everywhere; the unit is left to the sentence."""
        return written(scaled(value, UNITS[self.unit]), self.form)


@dataclass(frozen=True)
class Figure(FigureOf[At]):
    """A figure of a run."""

    of: Formula

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
