"""Runs that differ only in their seed, taken together: a figure of them is a mean with its deviation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradsync.figures.figure import At, Figure, everyone
from gradsync.figures.value import Value, over_repeats
from gradsync.ledger.summary import figures_of
from gradsync.record import Run, RunSummary


@dataclass(frozen=True)
class Case:
    """One run, or several that differ only in their seed."""

    runs: Sequence[Run]

    @cached_property
    def figures(self) -> RunSummary:
        """The settings and results of the first of them."""
        return figures_of(self.runs[0])

    @property
    def run(self) -> Run:
        """The first of them, which stands for all where one step or one curve is drawn."""
        return self.runs[0]

    @property
    def setting(self) -> dict[str, Any]:
        """The settings as requested."""
        return self.runs[0].config

    @property
    def completed(self) -> bool:
        return all(run.status == "completed" for run in self.runs)

    @property
    def status(self) -> str:
        return next((run.status for run in self.runs if run.status != "completed"), "completed")

    @property
    def remark(self) -> str:
        """Why there are no figures."""
        failed = next((run for run in self.runs if run.status != "completed"), None)
        if failed is None:
            return ""
        return "out of memory" if failed.out_of_memory else failed.status

    def value(self, figure: Figure, rank: int | None = None, x: float | None = None) -> Value:
        """Of a completed case: mean and deviation over its repeats; of a single run, with the deviation within it."""
        return self.so_far(figure, rank, x) if self.completed else None

    def so_far(self, figure: Figure, rank: int | None = None, x: float | None = None) -> Value:
        """The same for any case, completed or not."""
        places = [At(run, rank, x) for run in self.runs if (rank or 0) < len(everyone(figures_of(run)))]
        return figure.value(places[0]) if len(places) == 1 else over_repeats(map(figure.of, places))

    def of(self, figure: Callable[[RunSummary], float | None]) -> Value:
        return over_repeats(figure(run.summary) for run in self.runs if run.summary) if self.completed else None


def cases(runs: Iterable[Run]) -> list[Case]:
    """In the order in which the first run of each was made."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        setting = {name: value for name, value in run.config.items() if name not in ("seed", "out")}
        found.setdefault(json.dumps(setting, sort_keys=True), []).append(run)
    return [Case(tuple(each)) for each in found.values()]


def one_by_one(runs: Iterable[Run]) -> list[Case]:
    """Every run as a case of its own."""
    return [Case((run,)) for run in runs]


def way_of(case: Case, found: Sequence[Case]) -> str:
    """Its strategy, with the number of workers where that differs."""
    name = case.figures.strategy
    numbers = {other.figures.world_size for other in found if other.figures.strategy == name}
    return name if len(numbers) == 1 else f"{name} × {case.figures.world_size}"
