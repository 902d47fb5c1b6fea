"""What lies in the folders a report is asked for: studies, runs, and what is neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.record import PROBE_FILE, SCHEMA, Run, is_probe, read_run
from gradsync.report.columns import Line, line, strategy_name
from gradsync.study import Reproduction, Study, study_of
from gradsync.study.carry_out import is_study, key, read_study, runs_of
from gradsync.values import counted

OLDEST_SCHEMA = 2
MOST_NAMED = 12  # folders left out that are named one by one


@dataclass(frozen=True)
class Shown:
    """A run under a name that no other run of the report has, with its figures so far."""

    name: str
    line: Line

    @property
    def run(self) -> Run:
        return self.line.run

    @property
    def figures(self) -> dict[str, Any]:
        return self.line.figures

    @property
    def measured(self) -> bool:
        return bool(self.figures.get("ledger"))


@dataclass(frozen=True)
class StudyFound:
    folder: Path
    study: Study | Reproduction
    runs: list[Run]
    command: str


@dataclass
class Found:
    studies: list[StudyFound] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What is there but is not shown, and why."""


def collect(given: Sequence[Path]) -> Found:
    """Everything in these folders. A folder with nothing in it that can be shown is refused."""
    found = Found()
    for path in given:
        if not path.is_dir():
            raise InputError(f"{path} is not a folder. Give run folders, folders of them, or a study's folder.")
        look(path, found)
    if not found.runs and not found.studies:
        left_out = f" Left out: {' '.join(found.left_out)}" if found.left_out else ""
        raise InputError(
            f"{', '.join(map(str, given))}: no run that can be shown. Give the folders that gradsync printed, "
            f"for instance runs/* or studies/batch.{left_out}"
        )
    if len(found.left_out) > MOST_NAMED:
        rest = len(found.left_out) - MOST_NAMED
        found.left_out[MOST_NAMED:] = [f"{counted(rest, 'other folder')} likewise."]
    return found


def look(path: Path, found: Found) -> None:
    if is_study(path):
        look_at_study(path, found)
    elif is_probe(path) or (path / "config.json").exists():
        look_at_run(path, found)
    else:
        for inside in sorted(item for item in path.iterdir() if item.is_dir()):
            if is_study(inside) or (inside / "config.json").exists() or is_probe(inside):
                look(inside, found)
            else:
                found.left_out.append(f"{inside}: not a run of gradsync (no config.json).")


def look_at_study(path: Path, found: Found) -> None:
    try:
        record = read_study(path)
        study, runs = study_of(record), runs_of(path)
        missing = len(record["plan"]) - len(runs) - needless(study, record["plan"], runs)
    except (InputError, KeyError, TypeError) as error:
        found.left_out.append(f"{path}: its study.json cannot be read ({type(error).__name__}: {error}).")
        return
    found.studies.append(StudyFound(path, study, runs, record["command"]))
    found.runs += runs
    if missing:
        found.left_out.append(f"{path}: {missing} of {counted(len(record['plan']), 'run')} are still to be made.")


def needless(study: Study | Reproduction, plan: Sequence[dict[str, Any]], runs: Sequence[Run]) -> int:
    """How many runs of the plan will never be made, because of what the others showed."""
    made = {key(run.config) for run in runs}
    open_ones = [RunConfig(**config) for config in plan if key(config) not in made]
    return sum(isinstance(study, Study) and study.is_needless(config, runs) for config in open_ones)


def look_at_run(path: Path, found: Found) -> None:
    reason = ""
    try:
        run = read_run(path)
        reason = why_not(run)
    except InputError as error:
        reason = str(error)
    if reason:
        found.left_out.append(f"{path}: {reason}")
    else:
        found.runs.append(run)


def why_not(run: Run) -> str:
    """Empty: it can be shown."""
    if (run.folder / PROBE_FILE).exists():
        return "a collective benchmark; gradsync show prints it."
    if not {"model", "strategy", "seed"} <= set(run.config):
        return "its config.json is not one of gradsync's."
    schema = (run.summary or {}).get("schema", SCHEMA)
    if schema > SCHEMA:
        return f"its record has schema {schema}, from a newer gradsync; this one reads up to {SCHEMA}."
    if schema < OLDEST_SCHEMA:
        return f"its record has schema {schema}, from before there was a ledger."
    try:
        figures = line(run).figures
    except (InputError, KeyError, TypeError, ValueError) as error:
        return f"its record cannot be read ({type(error).__name__}: {error})."
    return "" if run.summary or figures["steps"] else "unfinished, and without a single step."


def shown(runs: Sequence[Run]) -> list[Shown]:
    """Runs with names that tell them apart: the strategy, and of what they differ in as much as it takes."""
    lines = [line(run) for run in runs]
    names = [strategy_name(item.figures) for item in lines]
    for part in PARTS_OF_NAMES:
        if len(set(names)) == len(names):
            break
        texts = [part_text(item.run, item.figures, part) for item in lines]
        if len(set(texts)) > 1:
            names = [f"{name}{text}" for name, text in zip(names, texts, strict=True)]
    return [Shown(name, item) for name, item in zip(numbered(names), lines, strict=True)]


PARTS_OF_NAMES = ("workers", "nodes", "model", "data", "batch_size", "lr", "epochs", "steps", "transport", "seed")


def part_text(run: Run, figures: dict[str, Any], part: str) -> str:
    if part == "workers":
        return f" × {figures['world_size']}"
    if part == "nodes":
        return f" on {counted(figures['nodes'], 'node')}"
    value = figures.get(part, run.config.get(part))
    return f", {part.replace('_size', '').replace('_', ' ')} {value:,}" if isinstance(value, int) else f", {value}"


def numbered(names: Sequence[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"
