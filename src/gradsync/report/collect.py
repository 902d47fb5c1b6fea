"""What lies in the folders a report is asked for: studies, runs, and what is neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.record import DamagedRecord, Run, UnreadableRecord, is_probe, is_run, rank_files, read_rows, read_run
from gradsync.report.columns import Line, line, strategy_name
from gradsync.study import Reproduction, Study, study_of
from gradsync.study.carry_out import STUDY_FILE, Kept, is_study, key, read_study
from gradsync.text import printable
from gradsync.values import counted

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
    probes: list[Run] = field(default_factory=list)
    unreadable: list[UnreadableRecord] = field(default_factory=list)
    """Records that are damaged, foreign, or from another version."""

    left_out: list[str] = field(default_factory=list)
    """What else is there but is not shown, and why."""


def find(given: Sequence[Path]) -> Found:
    """Every run, benchmark and study in these folders; what cannot be read does not hide the others."""
    found = Found()
    for path in given:
        look(path.parent if is_probe(path) and is_probe(path.parent) else path, found)  # one transport of a benchmark
    return found


def look(path: Path, found: Found) -> None:
    if is_study(path):
        look_at_study(path, found)
    elif is_run(path):
        look_at_run(path, found)
    else:
        for inside in folders_in(path):
            if is_study(inside) or is_run(inside):
                look(inside, found)
            else:
                found.left_out.append(f"{printable(inside)}: not a run of gradsync (no config.json).")


def folders_in(path: Path) -> list[Path]:
    try:
        return sorted(item for item in path.iterdir() if item.is_dir()) if path.is_dir() else []
    except OSError as error:
        raise InputError(f"{printable(path)}: {error.strerror}. Give run folders, or folders of them.") from None


def look_at_run(path: Path, found: Found) -> None:
    try:
        run = read_run(path)
        if run.summary is None and not is_probe(path):
            line(run)  # its figures come from its rows, and these may be damaged too
    except UnreadableRecord as error:
        found.unreadable.append(error)
    else:
        (found.probes if is_probe(path) else found.runs).append(run)


def look_at_study(path: Path, found: Found) -> None:
    try:
        record = read_study(path)
        study, kept = study_in(path, record), Kept(path)
    except UnreadableRecord as error:
        found.unreadable.append(error)
        look(path / "runs", found)  # these are runs all the same
        return
    runs = kept.of_plan(record["plan"])
    found.studies.append(StudyFound(path, study, runs, record["command"] or ""))
    found.runs += runs
    found.unreadable += kept.unreadable
    planned = len(record["plan"])
    if missing := planned - len(runs) - needless(study, record["plan"], runs):
        found.left_out.append(f"{printable(path)}: {missing} of {counted(planned, 'run')} are still to be made.")


def study_in(path: Path, record: dict[str, Any]) -> Study | Reproduction:
    try:
        return study_of(record)
    except InputError as error:
        raise DamagedRecord(path, f"{STUDY_FILE}: {error}") from None


def needless(study: Study | Reproduction, plan: Sequence[dict[str, Any]], runs: Sequence[Run]) -> int:
    """How many runs of the plan will never be made, because of what the others showed."""
    made = {key(run.config) for run in runs}
    open_ones = [RunConfig(**config) for config in plan if key(config) not in made]
    return sum(isinstance(study, Study) and study.is_needless(config, runs) for config in open_ones)


def collect(given: Sequence[Path]) -> Found:
    """What a report can show of them; if that is nothing, they are refused."""
    for path in given:
        if not path.is_dir():
            raise InputError(
                f"{printable(path)} is not a folder. Give run folders, folders of them, or a study's folder."
            )
    found = find(given)
    keep_those_with_rows(found)
    found.left_out = [
        *map(str, found.unreadable),
        *(f"{run.name}: a collective benchmark; gradsync show prints it." for run in found.probes),
        *found.left_out,
    ]
    if not found.runs and not found.studies:
        left_out = f" Left out: {' '.join(found.left_out)}" if found.left_out else ""
        raise InputError(
            f"{', '.join(map(printable, given))}: no run that can be shown. Give the folders that gradsync "
            f"printed, for instance runs/* or studies/batch.{left_out}"
        )
    if len(found.left_out) > MOST_NAMED:
        rest = len(found.left_out) - MOST_NAMED
        found.left_out[MOST_NAMED:] = [f"{counted(rest, 'other folder')} likewise."]
    return found


def keep_those_with_rows(found: Found) -> None:
    """Charts are made of rows: a run whose rows are damaged, or that has none yet, is left out."""
    kept = {run.folder for run in found.runs if has_rows(run, found)}
    found.runs = [run for run in found.runs if run.folder in kept]
    found.studies = [replace(each, runs=[run for run in each.runs if run.folder in kept]) for each in found.studies]


def has_rows(run: Run, found: Found) -> bool:
    try:
        rows = (row for path in rank_files(run.folder).values() for row in read_rows(path))
        steps = sum(row["kind"] == "step" for row in rows)
    except DamagedRecord as error:
        found.unreadable.append(error)
        return False
    if not run.summary and not steps:
        found.left_out.append(f"{run.name}: unfinished, and without a single step.")
        return False
    return True


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
