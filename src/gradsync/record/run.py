"""A run folder as it is found on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from gradsync.config import Facts, Resolved, RunConfig, objects, resolve, strategy_name
from gradsync.config.probe import ProbeConfig
from gradsync.config.resolved import from_dict
from gradsync.errors import InputError
from gradsync.record.checked import other_version, read_summary
from gradsync.record.damage import DamagedRecord, UnreadableRecord, read_json
from gradsync.record.folder import (
    CONFIG_FILE,
    OBJECTS_FILE,
    PROBE_FILE,
    RESOLVED_FILE,
    SUMMARY_FILE,
    is_probe,
    is_run,
    rank_file,
    write_json,
)
from gradsync.record.rank import read_rank
from gradsync.record.rows import StepRow
from gradsync.record.shape import Wrong
from gradsync.record.summaries import Error, ProbeSummary, RunSummary, Summary
from gradsync.record.writing import write_whole
from gradsync.text import printable

Config = TypeVar("Config", RunConfig, ProbeConfig)

# Used to resolve, without torch, the settings of folders made before resolved.json existed. The other strategies of
# that time, including the user's own, had one process per worker and no servers.
EARLIER_FACTS = {
    "local": Facts(in_one_process=True),
    "data-parallel": Facts(in_one_process=True),
    "ddp": Facts(over_mpi=False),
    "ps-sync": Facts(has_servers=True),
    "ps-async": Facts(has_servers=True, asynchronous=True),
}


@dataclass(frozen=True)
class Recorded:
    """What gradsync has recorded in a folder: a run, or a collective benchmark."""

    folder: Path
    asked: RunConfig | ProbeConfig
    """The settings that were asked for, with every one this version has."""

    summary: Summary | None

    @property
    def config(self) -> dict[str, Any]:
        """What was asked for, as in config.json."""
        return self.asked.to_dict()

    @property
    def name(self) -> str:
        """The folder, safe to show."""
        return printable(self.folder)

    @property
    def status(self) -> str:
        return self.summary.status if self.summary else "unfinished"

    @property
    def error(self) -> Error | None:
        return self.summary.error if self.summary else None

    @property
    def stopped_by(self) -> str | None:
        """The name of the signal, if one interrupted the run."""
        return self.error.signal if self.error else None

    @property
    def out_of_memory(self) -> bool:
        """Whether it failed because what it asked for does not fit."""
        return bool(self.error and self.error.out_of_memory)


@dataclass(frozen=True)
class Run(Recorded):
    asked: RunConfig
    summary: RunSummary | None

    @cached_property
    def resolved(self) -> Resolved:
        """The resolved settings it was made with."""
        if os.path.exists(self.folder / RESOLVED_FILE):
            return read_resolved(self.folder, self.asked)
        try:
            found = resolve(self.asked, EARLIER_FACTS.get(strategy_name(self.asked), Facts()))
        except InputError as error:
            raise DamagedRecord(self.folder, f"{CONFIG_FILE}: {error}") from None
        # The threads of the run, not those of the machine on which it is read.
        return replace(found, threads=self.summary.threads) if self.summary and self.summary.threads else found

    def steps(self, rank: int = 0) -> list[StepRow]:
        """The steps of a rank, without their stamps, which are most of the bytes. They are read once."""
        if rank not in self._steps:
            self._steps[rank] = read_rank(rank_file(self.folder, rank), stamps_until=0).steps
        return self._steps[rank]

    @cached_property
    def _steps(self) -> dict[int, list[StepRow]]:
        return {}


@dataclass(frozen=True)
class ProbeRun(Recorded):
    """A collective benchmark."""

    asked: ProbeConfig
    summary: ProbeSummary | None


def read_run(folder: Path) -> Run | ProbeRun:
    if not is_run(folder):
        raise UnreadableRecord(
            folder,
            "not a run folder: it has no config.json. Give the folders that `gradsync train` or `gradsync compare` "
            "printed, for instance runs/*.",
        )
    asked = read_config(folder)
    summary = None
    if os.path.exists(folder / SUMMARY_FILE):
        values = read_json(folder / SUMMARY_FILE)
        if why := other_version(values):
            raise UnreadableRecord(folder, why)
        try:
            summary = read_summary(values, isinstance(asked, ProbeConfig))
        except Wrong as wrong:
            raise DamagedRecord(folder, f"{SUMMARY_FILE}: {wrong}") from None
    if isinstance(asked, ProbeConfig):
        return ProbeRun(folder, asked, summary)  # type: ignore[arg-type] # a probe's, as checked above
    run = Run(folder, asked, summary)  # type: ignore[arg-type] # a run's
    if os.path.exists(folder / RESOLVED_FILE):
        _ = run.resolved  # damage is reported here, and not where the settings are first needed
    return run


def read_config(folder: Path) -> RunConfig | ProbeConfig:
    """What was asked for, with every setting this version has."""
    of_probe = is_probe(folder)
    name, always_there = (PROBE_FILE, "operations") if of_probe else (CONFIG_FILE, "model")
    values = read_table(folder, name, always_there)
    try:
        return settings(values, ProbeConfig) if of_probe else settings(values, RunConfig)
    except InputError as error:
        raise DamagedRecord(folder, f"{name}: {error}") from None


def read_resolved(folder: Path, asked: RunConfig | None = None) -> Resolved:
    """The settings as the command that started the run resolved them; the ranks use these only."""
    values = read_table(folder, RESOLVED_FILE, "model")
    try:
        return from_dict(values, asked)
    except InputError as error:
        raise DamagedRecord(folder, f"{RESOLVED_FILE}: {error}") from None


def read_table(folder: Path, name: str, always_there: str) -> dict[str, Any]:
    values = read_json(folder / name)
    if not isinstance(values, dict) or always_there not in values:
        raise UnreadableRecord(folder, f"its {name} is not one of gradsync's.")
    return values


def write_settings(folder: Path, config: Resolved) -> None:
    """Write what was asked for and what it resolved to: the folder is then ready for the ranks."""
    if pickled := objects.pickled(config.to_dict()):
        write_whole(folder / OBJECTS_FILE, pickled)
    write_json(folder / CONFIG_FILE, config.asked.to_dict())
    write_json(folder / RESOLVED_FILE, config.to_dict())


def settings(values: dict[str, Any], kind: type[Config]) -> Config:
    """Settings that this version does not know are ignored; those added since have their defaults."""
    known = {item.name for item in fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in known})
