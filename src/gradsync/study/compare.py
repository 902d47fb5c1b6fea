"""The same model, data and seed under several synchronization strategies, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.exhibit.form import Section
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy

FOUR_WAYS = ("local", "gather-scatter", "all-reduce", "ddp")


@dataclass(kw_only=True)
class CompareStudy(SettingsStudy):
    """What to hold fixed, and the strategies to compare. local runs in one process, the others on --workers."""

    strategies: tuple[str, ...] = FOUR_WAYS
    """The strategies to compare, in this order."""

    columns: tuple[str, ...] = ()
    """Figures in the table of runs, for instance workers,accuracy,total. An unknown name prints the list."""

    name: ClassVar[str] = "compare"
    title: ClassVar[str] = "Synchronization strategies compared"
    shows_runs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.strategies:
            raise InputError("--strategies is empty: name at least one.")

    @property
    def runs_at_most(self) -> int:
        return self.repeat * len(self.strategies) * max(1, len(self.workers))

    def own_processes(self, asked: RunConfig) -> bool:
        """Every strategy starts in fresh processes."""
        return True

    def plan(self) -> list[RunConfig]:
        numbers = self.workers or (self.run().default_workers,)
        changes: dict[str, Any] = {}
        if self.batch_per_worker and len(numbers) == 1:  # then the global batch is held fixed, for local too
            changes = {"batch_size": self.batch_per_worker * numbers[0]}
        return [
            self.run(strategy, workers, **changes)
            for strategy in self.strategies
            for workers in ((1,) if strategy == "local" else numbers)
        ]

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        from gradsync.exhibit.runs import sections as exhibit

        return exhibit.sections(runs, self.columns)
