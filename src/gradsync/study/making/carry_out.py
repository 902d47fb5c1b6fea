"""Make the runs of a study: those that are finished are kept, whatever became of the command that made them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, TypedDict, cast

from filelock import FileLock, Timeout

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.config.probe import ProbeConfig
from gradsync.errors import InputError
from gradsync.record import (
    DamagedRecord,
    Recorded,
    UnreadableRecord,
    is_probe,
    read_json,
    read_run,
    settings,
    write_json,
)
from gradsync.record.shape import Wrong, checker
from gradsync.record.walk import STUDY_FILE, walk
from gradsync.study.making.base import Asked, Planned, Study

LOCK_FILE = ".lock"


def runs_folder(folder: Path) -> Path:
    """Where the runs of a study are."""
    return folder / "runs"


def prepare(folder: Path, study: Study, command: str, plan: Sequence[Asked]) -> None:
    """Record what is asked for in study.json."""
    record = {
        "study": study.name,
        "settings": study.to_dict(),
        "command": command,
        "plan": [asked.to_dict() for asked in plan],
    }
    with writing_to(folder):
        write_json(folder / STUDY_FILE, record)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Create the folder, and turn a failure to write to it into a sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(
            f"cannot write to {folder}: {error.strerror or error}. Choose another with --out or --folder."
        ) from None


class StudyRecord(TypedDict):
    """study.json."""

    study: str
    settings: dict[str, Any]
    command: str | None
    plan: list[dict[str, Any]]


def read_study(folder: Path) -> StudyRecord:
    """The plan with every setting this version has."""
    record = read_json(folder / STUDY_FILE)
    try:
        checker(StudyRecord)(record)
        plan = [asked_in(values).to_dict() for values in record["plan"]]
    except (Wrong, InputError) as error:
        raise DamagedRecord(folder, f"{STUDY_FILE}: {error}") from None
    return cast(StudyRecord, {**record, "plan": plan})


def asked_in(values: dict[str, Any]) -> Asked:
    """A run of a plan: a collective benchmark has operations, a training run has none."""
    return settings(values, ProbeConfig) if "operations" in values else settings(values, RunConfig)


def runs_of(folder: Path) -> list[Any]:
    """The runs of the plan that have ended, in its order, successful or not. Only reads."""
    return Kept(folder).of_plan(read_study(folder)["plan"])


class Kept:
    """The runs of a study that have ended, by what they were asked to do.

    Several may have been asked to do the same: they are the repeats of one another, in the order of their folders.
    """

    def __init__(self, folder: Path, finish: bool = False) -> None:
        """``finish``: write the summaries of runs whose command was killed after they had ended."""
        self._done: dict[str, list[Recorded]] = {}
        self._failed: dict[str, Recorded] = {}
        self.unreadable: list[UnreadableRecord] = []
        """Runs that cannot be read do not count: on resuming they are made again."""

        for place in walk(runs_folder(folder)):
            if place.kind != "run":
                continue
            try:
                run: Recorded = read_run(place.path)
            except UnreadableRecord as error:
                self.unreadable.append(error)
                continue
            if run.summary is None and finish and not is_probe(place.path):
                with suppress(InputError):  # the same processes may have had other runs still to make
                    run = launch.finish(place.path)
            if run.status == "completed" or run.out_of_memory:
                self._done.setdefault(key(run.config), []).append(run)
            elif run.summary:
                self._failed[key(run.config)] = run

    def matched(self, plan: Sequence[dict[str, Any]]) -> list[Recorded | None]:
        """For each run of the plan the one that need not be made again, or None."""
        left = {asked: list(runs) for asked, runs in self._done.items()}
        return [runs.pop(0) if (runs := left.get(key(asked), [])) else None for asked in plan]

    def of_plan(self, plan: Sequence[dict[str, Any]]) -> list[Any]:
        """The runs that have ended, in the plan's order, successful or not."""
        found = zip(plan, self.matched(plan), strict=True)
        return [run for asked, done in found if (run := done or self._failed.get(key(asked)))]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock the study, so that no other command makes its runs meanwhile."""
    lock = FileLock(folder / LOCK_FILE)
    with writing_to(folder):
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise InputError(
                f"another command is at work in {folder}. HINT: wait for it, or give this one another --folder."
            ) from None
    try:
        yield
    finally:
        lock.release()


def key(config: dict[str, Any]) -> str:
    """Two configs for which this is the same ask for the same run, wherever its folder is."""
    return json.dumps({name: value for name, value in config.items() if name != "out"}, sort_keys=True)


def carry_out(study: Study, plan: Sequence[Planned], kept: Kept, watch: launch.Watch) -> list[Any]:
    """Make the runs of the plan, in its order: those that are needless, or follow an interruption, are missing.

    Consecutive runs share processes if they can, unless each is to have its own.
    """
    found = kept.matched([planned.asked.to_dict() for planned in plan])
    done: list[Recorded] = []
    for _, group in groupby(enumerate(zip(plan, found, strict=True)), lambda item: together(study, *item)):
        wanted = []
        for _, (planned, finished) in group:
            if finished:
                done.append(finished)
            elif not study.is_needless(planned.asked, done):
                wanted.append(planned)
        done += study.make(wanted, watch) if wanted else []
        if done and done[-1].stopped_by:
            break
    return done


def together(study: Study, number: int, run: tuple[Planned, Recorded | None]) -> Hashable:
    """None if the run is finished, else the same for consecutive runs that can share processes."""
    planned, finished = run
    if finished:
        return None
    return number if study.own_processes(planned.asked) else study.start_of(planned)
