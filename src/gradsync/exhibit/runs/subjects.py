"""What tables and charts of runs are about: cases under names that tell them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gradsync.config.values import counted
from gradsync.figures.cases import Case
from gradsync.figures.differences import said, settings, varied
from gradsync.record import Run, RunSummary


@dataclass(frozen=True)
class Subject:
    """A case under a unique name."""

    name: str
    case: Case

    @property
    def run(self) -> Run:
        return self.case.run

    @property
    def figures(self) -> RunSummary:
        return self.case.figures

    @property
    def measured(self) -> bool:
        return bool(self.figures.ledger)


def of_first(subjects: Sequence[Subject]) -> list[str]:
    """A note where one run stands for its repeats."""
    most = max((len(item.case.runs) for item in subjects), default=1)
    return [f"The first of {most} runs with different seeds is shown."] if most > 1 else []


def strategy_name(figures: RunSummary) -> str:
    """The strategy with the options it was given."""
    options = ", ".join(f"{name} {value}" for name, value in (figures.options or {}).items())
    return f"{figures.strategy} ({options})" if options else figures.strategy


def named(found: Sequence[Case]) -> list[Subject]:
    """Each case is named by its strategy and by as many of its differences as it takes to tell it apart."""
    names = [strategy_name(case.figures) for case in found]
    for part in differences(found):
        if len(set(names)) == len(names):
            break
        longer = [f"{name}{text}" for name, text in zip(names, part, strict=True)]
        if len(set(longer)) > len(set(names)):
            names = longer
    return [Subject(name, case) for name, case in zip(numbered(names), found, strict=True)]


def differences(found: Sequence[Case]) -> Iterator[list[str]]:
    """What each case is called in addition: by what it came to first, then by every setting in which they differ."""
    for part in CAME_TO:
        yield [part(case) for case in found]
    each = [settings(case.setting) for case in found]
    for name in varied(each):
        if name not in SAID:
            yield [f", {text}" if (text := said(name, config.get(name))) else "" for config in each]


CAME_TO: tuple[Callable[[Case], str], ...] = (
    lambda case: f" × {case.figures.world_size}",
    lambda case: f" on {counted(case.figures.nodes, 'node')}",
    lambda case: f", {case.figures.model}",
    lambda case: f", {case.figures.data}",
    lambda case: f", batch {case.figures.batch_size:,}",
    lambda case: f", {case.figures.transport}" if case.figures.transport else "",
)
SAID = {"strategy", "workers", "nodes", "model", "data", "batch_size", "batch_per_worker", "transport", "out"}
"""Settings that are said by what they came to, and the folder."""


def numbered(names: Sequence[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"
