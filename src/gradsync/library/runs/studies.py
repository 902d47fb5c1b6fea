"""Carry out any study: check its plan, make its runs under a display, write its page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gradsync import launch
from gradsync.config import Resolved, RunConfig
from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.exhibit.form import Document
from gradsync.record import Recorded
from gradsync.study.making.base import Asked, Planned, Study
from gradsync.study.making.carry_out import Kept, carry_out, held, prepare, runs_folder
from gradsync.study.making.place import choose_folder

WatchMaker = Callable[[int, int], AbstractContextManager[launch.Watch]]


class Checked(NamedTuple):
    """The runs asked for, the folder they go to, and their resolved settings."""

    asked: list[Asked]
    folder: Path
    configs: list[Resolved]


def checked(study: Study) -> Checked:
    """Resolve the plan of a study; anything wrong is refused."""
    from gradsync.library.runs.check import check, check_probe, facts_in, suit

    plan = study.plan()
    trains = all(isinstance(asked, RunConfig) for asked in plan)
    if trains:
        study.check_facts(facts_in(plan))
    asked = study.repeated(suit(plan) if trains else plan)
    folder = choose_folder(study, asked)
    asked = [replace(item, out=str(runs_folder(folder))) for item in asked]
    configs = check(asked) if trains else [config for item in asked for config in check_probe(item)]
    return Checked(asked, folder, configs)


def made(
    study: Study, ready: Checked, typed: str, console: Any, watch: WatchMaker | None = None
) -> Sequence[Recorded]:
    """Make the runs of a study that is checked, except those that are finished already. ``typed``: what repeats it.

    ``watch``: makes the display of the runs, given how many of how many are finished already.
    """
    asked, folder, configs = ready
    with held(folder):
        prepare(folder, study, typed, asked)
        runs = make(study, folder, list(map(Planned, asked, configs)), console, watch)
        study.complete(runs)
    return runs


def make(
    study: Study, folder: Path, plan: Sequence[Planned], console: Any, watch: WatchMaker | None
) -> list[Recorded]:
    """Make the runs of the plan under one display."""
    from gradsync.live.study_progress import WatchStudy

    kept = Kept(folder, finish=True)
    for error in kept.unreadable:
        print(f"skipped: {error}", file=sys.stderr, flush=True)
    asked = [planned.asked.to_dict() for planned in plan]
    missing = [item for item, run in zip(asked, kept.matched(asked), strict=True) if run is None]
    finished = len(plan) - len(missing)
    if finished:
        console.print(f"{finished} of {counted(len(plan), 'run')} are finished already", soft_wrap=True)
    with watch(finished, len(plan)) if watch else WatchStudy(console, missing, len(plan)) as shown:
        return carry_out(study, plan, kept, shown)


def stopped_by(runs: Sequence[Recorded]) -> str | None:
    """The signal that interrupted the study."""
    return next((run.stopped_by for run in runs if run.stopped_by), None)


def write_report(document: Document, folder: Path) -> Path | None:
    """The page, and its tables as CSV. If they cannot be written, a message says so, and the command goes on."""
    try:
        from gradsync.draw.export import write, write_tables

        write_tables(document, folder / "tables")
        (page,) = write(document, folder / "report.html", "html")
    except (InputError, ImportError) as error:
        print(f"gradsync: no report: {error}", file=sys.stderr)
        return None
    return page
