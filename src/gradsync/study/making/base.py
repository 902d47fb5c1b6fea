"""What every study is: a question, the runs that answer it, and what these show together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from gradsync import launch
from gradsync.config import Facts, RunConfig
from gradsync.config.probe import ProbeConfig
from gradsync.config.resolved import Resolved
from gradsync.exhibit.form import Section, doubts_first
from gradsync.exhibit.remarks import doubts
from gradsync.exhibit.runs.subjects import named
from gradsync.figures.cases import cases
from gradsync.record import Recorded

Asked = RunConfig | ProbeConfig

WHERE = ("out", "folder")  # settings that say where a study is kept, and nothing about its runs


@dataclass(frozen=True)
class Planned:
    """A run of a study: what it is asked to do, and the resolved settings it is started with."""

    asked: Asked
    ready: Resolved


@dataclass(kw_only=True)
class Study(ABC):
    """Settings that say which runs are made. With the records of the runs, they suffice to show the results again."""

    repeat: int = 1
    """Make every run N times, each time with the next seed: figures are then mean ± standard deviation."""

    folder: str | None = None
    """The folder of this study. Default: one named after the study in --out; a different study there is never
    overwritten: the new one gets a number. Finished runs are kept: the same command resumes an interrupted study."""

    out: str = "studies"
    """The folder in which each study gets its own, unless --folder names one."""

    name: ClassVar[str]
    """Its name in study.json and on the command line."""

    title: ClassVar[str]
    """The title of its report."""

    shows_runs: ClassVar[bool] = False
    """Whether its own sections show the runs; otherwise sections about the runs follow, as details."""

    called = ""
    """The name of its folder, if that is not the study's: for a grid, the name of its file."""

    @abstractmethod
    def plan(self) -> list[Any]:
        """The runs asked for, each once, in the order in which they are made: RunConfigs, or ProbeConfigs."""

    @abstractmethod
    def sections(self, runs: Sequence[Any]) -> list[Section]:
        """What the runs made so far show. Their records are enough: torch is not needed."""

    def doubts(self, runs: Sequence[Any]) -> list[str]:
        """What limits all that these runs show."""
        return doubts(named(cases(runs)))

    def told(self, runs: Sequence[Any]) -> list[Section]:
        """Its sections, with what limits the results before any other sentence."""
        return doubts_first(self.sections(runs), self.doubts(runs))

    def summary(self, runs: Sequence[Any]) -> list[str]:
        """The findings in plain sentences: what limits them, then the most important first."""
        return [sentence for section in self.told(runs) for sentence in section.sentences]

    def check_facts(self, facts: Mapping[str, Facts]) -> None:  # noqa: B027 - most studies are about any strategy
        """Refuse strategies that the study is not about, by what their classes declare."""

    def is_needless(self, asked: Any, done: Sequence[Any]) -> bool:
        """Whether what is known already makes this run pointless."""
        return False

    def own_processes(self, asked: Any) -> bool:
        """Whether the run needs processes of its own, for instance because their peak memory is measured."""
        return False

    def complete(self, runs: Sequence[Any]) -> None:  # noqa: B027 - most studies have nothing to add
        """After the runs: write into their folders what only the study knows about them."""

    def passes(self, runs: Sequence[Any]) -> bool:
        """Whether the command ends well. What does not fit into memory is a finding, not a failure."""
        return all(run.status == "completed" or run.out_of_memory for run in runs)

    @property
    def default_folder(self) -> str:
        """Its name in --out."""
        return self.called or self.name

    def repeated(self, plan: Sequence[Any]) -> list[Any]:
        """All runs once, then all of them with the next seed: an interrupted study has a whole table sooner."""
        return [replace(asked, seed=asked.seed + number) for number in range(self.repeat) for asked in plan]

    def start_of(self, planned: Planned) -> Hashable:
        """Consecutive runs for which this is the same can be made by the same processes."""
        return launch.start_of(planned.ready)

    def make(self, runs: Sequence[Planned], watch: launch.Watch) -> Sequence[Recorded]:
        """Make runs that can share processes, one after another."""
        return launch.run_in_turn([planned.ready for planned in runs], watch)

    def to_dict(self) -> dict[str, Any]:
        """The settings for study.json, from which ``gradsync.study.study_of`` makes the study again."""
        return {name: value for name, value in asdict(self).items() if name not in WHERE}
