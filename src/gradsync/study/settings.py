"""What every study is: settings that make a list of runs, and what the runs show together."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from gradsync.config import ONE_PROCESS, WITH_SERVERS, RunConfig, Settings
from gradsync.errors import InputError
from gradsync.exhibit import Section
from gradsync.record import Run
from gradsync.study.compare import Several, refuse_too_many_runs


@dataclass(kw_only=True)
class Study(Several):
    """Settings all runs share. A study says which runs they make and what these show."""

    strategies: tuple[str, ...] = ()
    """How workers agree. Default: local for one worker, else ddp."""

    repeat: int = 1
    """Make every run so many times, with another seed each: figures are then mean ± standard deviation."""

    out: str = "studies"
    """Folder in which each study has its own. What is finished in there is not run again."""

    folder: str | None = None
    """What its folder in --out is called. Default: as the study, or as the file it was read from."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What a report about it is called."""

    default_epochs: ClassVar[int | None] = None
    own_processes: ClassVar[bool] = False
    """Whether every run needs processes of its own: the peak of memory is that of a process, whatever it ran."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_too_many_runs(self.runs_at_most)

    @property
    def runs_at_most(self) -> int:
        """Every combination of what is listed, told before a list of them is made."""
        shared = {item.name for item in fields(Settings)}
        values = [getattr(self, item.name) for item in fields(self) if item.name not in shared]
        return self.repeat * math.prod(len(value) for value in values if isinstance(value, tuple) and value)

    @abstractmethod
    def plan(self) -> list[RunConfig]:
        """The runs, each once, in the order in which they are made."""

    @abstractmethod
    def sections(self, runs: Sequence[Run]) -> list[Section]:
        """What the runs show, as far as they were made."""

    def summary(self, runs: Sequence[Run]) -> list[str]:
        """The findings in plain sentences, most important first."""
        return [sentence for section in self.sections(runs) for sentence in section.sentences]

    def is_needless(self, config: RunConfig, done: Sequence[Run]) -> bool:
        """Whether what is known already makes this run pointless."""
        return False

    @property
    def ways(self) -> tuple[str | None, ...]:
        return self.strategies or (None,)

    @property
    def numbers(self) -> tuple[int | None, ...]:
        """Of workers."""
        return self.workers or (None,)

    def run(self, strategy: str | None = None, workers: int | None = None, **changes: Any) -> RunConfig:
        """The shared settings with these changes. A batch size or a number of epochs replaces its alternative."""
        shared: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(Settings)}
        for one, other in (("batch_size", "batch_per_worker"), ("epochs", "steps")):
            if one in changes:
                shared[other] = None
            if other in changes:
                shared[one] = None
        if not {shared["epochs"], shared["steps"], changes.get("epochs"), changes.get("steps")} - {None}:
            shared["epochs"] = self.default_epochs
        if strategy in ONE_PROCESS:
            shared |= {"inject": None, "launcher": None if self.launcher == "mpi" else self.launcher}
        return RunConfig(
            **{
                **shared,
                "strategy": strategy,
                "workers": workers,
                "servers": self.servers if strategy in WITH_SERVERS else None,
                "transport": "auto" if strategy in ONE_PROCESS else self.transport,
                "options": {} if strategy in ONE_PROCESS else self.options,
                **changes,
            }
        )

    def repeated(self, plan: Sequence[RunConfig]) -> list[RunConfig]:
        """All runs once, then all of them with the next seed: an interrupted study has a whole table sooner."""
        return [replace(config, seed=config.seed + number) for number in range(self.repeat) for config in plan]


def with_known_options(configs: Sequence[RunConfig], option_names: dict[str, set[str]]) -> list[RunConfig]:
    """Each run keeps the options its strategy has; one that no strategy has is refused."""
    given = {name for config in configs for name in config.options}
    known = set().union(*option_names.values())
    for name in sorted(given - known):
        raise InputError(
            f"none of {', '.join(option_names)} has an option {name}. Their options: "
            f"{', '.join(sorted(known)) or 'none'}."
        )
    return [
        replace(config, options={name: value for name, value in config.options.items() if name in option_names[way]})
        for config in configs
        for way in [config.resolved().strategy or ""]
    ]
