"""A run folder as it is found on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from gradsync.config import RunConfig
from gradsync.config.probe import ProbeConfig
from gradsync.errors import InputError
from gradsync.record.damage import DamagedRecord, UnreadableRecord, read_json
from gradsync.record.folder import CONFIG_FILE, PROBE_FILE, SUMMARY_FILE, is_probe, is_run
from gradsync.record.shape import Wrong
from gradsync.record.summaries import check_summary, other_version
from gradsync.text import printable

Config = TypeVar("Config", RunConfig, ProbeConfig)


@dataclass(frozen=True)
class Run:
    """A run, or a collective benchmark."""

    folder: Path
    config: dict[str, Any]
    summary: dict[str, Any] | None

    @property
    def name(self) -> str:
        """The folder, to be shown."""
        return printable(self.folder)

    @property
    def status(self) -> str:
        return self.summary["status"] if self.summary else "unfinished"

    @property
    def stopped_by(self) -> str | None:
        """The name of the signal, if one interrupted the run."""
        error = self.summary["error"] if self.summary else None
        return error.get("signal") if error else None

    @property
    def out_of_memory(self) -> bool:
        """Whether it failed because what it asked for does not fit."""
        error = self.summary["error"] if self.summary else None
        return bool(error and error.get("out_of_memory"))


def read_run(folder: Path) -> Run:
    if not is_run(folder):
        raise UnreadableRecord(
            folder,
            "not a run folder: it has no config.json. Give the folders that `gradsync train` or `gradsync compare` "
            "printed, for instance runs/*.",
        )
    config = read_config(folder).to_dict()
    if not os.path.exists(folder / SUMMARY_FILE):
        return Run(folder, config, None)
    summary = read_json(folder / SUMMARY_FILE)
    if why := other_version(summary):
        raise UnreadableRecord(folder, why)
    try:
        return Run(folder, config, check_summary(summary, is_probe(folder)))
    except Wrong as wrong:
        raise DamagedRecord(folder, f"{SUMMARY_FILE}: {wrong}") from None


def read_config(folder: Path) -> RunConfig | ProbeConfig:
    """What was asked, with every setting this version has."""
    of_probe = is_probe(folder)
    name, always_there = (PROBE_FILE, "operations") if of_probe else (CONFIG_FILE, "model")
    values = read_json(folder / name)
    if not isinstance(values, dict) or always_there not in values:
        raise UnreadableRecord(folder, f"its {name} is not one of gradsync's.")
    try:
        return settings(values, ProbeConfig) if of_probe else settings(values, RunConfig)
    except InputError as error:
        raise DamagedRecord(folder, f"{name}: {error}") from None


def settings(values: dict[str, Any], kind: type[Config]) -> Config:
    """Settings this version does not know are left aside, those it has got since have their defaults."""
    known = {item.name for item in fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in known})
