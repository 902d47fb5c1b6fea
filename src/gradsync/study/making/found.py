"""What the folders that a command is asked to show hold: studies, runs, benchmarks, and anything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.ledger.summary import figures_of, summarized_again
from gradsync.record import DamagedRecord, ProbeRun, Run, UnreadableRecord, rank_files, read_rows, read_run
from gradsync.record.certificate import read_certificate
from gradsync.record.walk import STUDY_FILE, walk
from gradsync.study import study_of
from gradsync.study.making.base import Study
from gradsync.study.making.carry_out import Kept, StudyRecord, asked_in, key, read_study, runs_folder
from gradsync.text import printable

MOST_NAMED = 12  # folders left out that are named one by one


@dataclass(frozen=True)
class StudyFound:
    folder: Path
    study: Study
    runs: list[Any]
    """The runs of the plan that have ended."""

    command: str


@dataclass
class Found:
    studies: list[StudyFound] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    """All runs, including those of the studies."""

    probes: list[ProbeRun] = field(default_factory=list)
    unreadable: list[UnreadableRecord] = field(default_factory=list)
    """Records that are damaged, foreign, or from another version."""

    left_out: list[str] = field(default_factory=list)
    """What else is there but is not shown, and why."""

    @property
    def loose_runs(self) -> list[Run]:
        """The runs that belong to no study."""
        of_studies = {run.folder for each in self.studies for run in each.runs}
        return [run for run in self.runs if run.folder not in of_studies]

    @property
    def loose_probes(self) -> list[ProbeRun]:
        of_studies = {run.folder for each in self.studies for run in each.runs}
        return [run for run in self.probes if run.folder not in of_studies]


def found_in(given: Sequence[Path]) -> Found:
    """Every run, benchmark and study in these folders; what cannot be read does not hide the others."""
    found = Found()
    for path in given:
        for place in walk(path):
            if place.kind == "study":
                add_study(place.path, found)
            elif place.kind == "run":
                add_run(place.path, found)
            elif place.path not in given:
                found.left_out.append(f"{printable(place.path)}: not a run of gradsync (no config.json).")
    return found


def add_run(path: Path, found: Found) -> None:
    if any(path == run.folder for run in (*found.runs, *found.probes)):
        return
    try:
        run = read_run(path)
        if isinstance(run, Run):
            figures_of(run)  # for an unfinished run they come from its rows, which may be damaged too
            read_certificate(path)
    except UnreadableRecord as error:
        found.unreadable.append(error)
    else:
        add(run, found)


def add(run: Run | ProbeRun, found: Found) -> None:
    if isinstance(run, Run):
        found.runs.append(run)
    else:
        found.probes.append(run)


def add_study(path: Path, found: Found) -> None:
    try:
        record = read_study(path)
        study, kept = study_in(path, record), Kept(path)
    except UnreadableRecord as error:
        found.unreadable.append(error)
        for place in walk(runs_folder(path)):  # its runs can be shown all the same
            if place.kind == "run":
                add_run(place.path, found)
        return
    runs = kept.of_plan(record["plan"])
    found.studies.append(StudyFound(path, study, runs, record["command"] or ""))
    for run in runs:
        add(run, found)
    found.unreadable += kept.unreadable
    planned = len(record["plan"])
    if missing := planned - len(runs) - needless(study, record["plan"], runs):
        found.left_out.append(f"{printable(path)}: {missing} of {counted(planned, 'run')} are still to be made.")


def study_in(path: Path, record: StudyRecord) -> Study:
    try:
        return study_of(record)
    except InputError as error:
        raise DamagedRecord(path, f"{STUDY_FILE}: {error}") from None


def needless(study: Study, plan: Sequence[dict[str, Any]], runs: Sequence[Any]) -> int:
    """How many runs of the plan will never be made, because of what the others showed."""
    made = {key(run.config) for run in runs}
    return sum(study.is_needless(asked_in(asked), runs) for asked in plan if key(asked) not in made)


def collect(given: Sequence[Path]) -> Found:
    """What a report can show of these folders; if that is nothing, they are refused."""
    for path in given:
        if not path.is_dir():
            raise InputError(
                f"{printable(path)} is not a folder. Give run folders, folders of them, or a study's folder."
            )
    found = found_in(given)
    keep_those_with_rows(found)
    found.left_out = [*map(str, found.unreadable), *found.left_out]
    if not found.runs and not found.studies and not found.probes:
        left_out = f" Left out: {' '.join(found.left_out)}" if found.left_out else ""
        raise InputError(
            f"{', '.join(map(printable, given))}: no run that can be shown. Give the folders that gradsync "
            f"printed, for instance runs/* or studies/batch.{left_out}"
        )
    if len(found.left_out) > MOST_NAMED:
        rest = len(found.left_out) - MOST_NAMED
        found.left_out[MOST_NAMED:] = [f"{counted(rest, 'other folder')}."]
    return found


def in_window(found: Found, window: str) -> Found:
    """The same runs with other steps timed."""
    again = {run.folder: summarized_again(run, window) for run in found.runs}
    studies = [replace(each, runs=[again.get(run.folder, run) for run in each.runs]) for each in found.studies]
    return replace(found, runs=list(again.values()), studies=studies)


def keep_those_with_rows(found: Found) -> None:
    """Charts are made from rows: a run whose rows are damaged, or that has none yet, is left out."""
    kept = {run.folder for run in found.runs if has_rows(run, found)} | {run.folder for run in found.probes}
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
