"""Carry out any study: make its runs, then show the results on the terminal, as a page, as tables, as JSON."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gradsync import launch
from gradsync.cli.commands import StudyRuns
from gradsync.cli.nodes import on_nodes
from gradsync.cli.output import print_failures, print_json, show_sections, summary_with_folder
from gradsync.config import Resolved, RunConfig
from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.exhibit.form import Document
from gradsync.record import Recorded
from gradsync.study.making.base import Asked, Planned, Study
from gradsync.study.making.carry_out import Kept, carry_out, held, prepare, runs_folder
from gradsync.study.making.place import choose_folder

WatchMaker = Callable[[int, int], launch.Watch]


class Shown(Protocol):
    """What commands that carry out a study have in common."""

    json: bool
    details: bool


def study(command: StudyRuns[Any]) -> int:
    return carry_out_study(on_nodes(command.run), command).exit_code()


@dataclass(frozen=True)
class CarriedOut:
    """A study and the runs made for it: all of them, or those made before it was interrupted."""

    study: Study
    folder: Path
    runs: Sequence[Any]
    planned: int
    document: Document
    page: Path | None

    def as_json(self) -> dict[str, Any]:
        """What the page shows, and the summaries of the runs."""
        from gradsync.draw.data import plain

        return {
            "study": self.study.name,
            "folder": str(self.folder),
            "report": str(self.page) if self.page else None,
            **plain(self.document),
            "runs": [summary_with_folder(run) for run in self.runs],
        }

    def exit_code(self) -> int:
        """The exit code; an interrupted study first prints how to resume it."""
        if stopped := stopped_by(self.runs):
            done = sum(run.status == "completed" for run in self.runs)
            count = f"{done} of {counted(self.planned, 'run')}"
            print(f"stopped: {count} are finished; the same command resumes.", file=sys.stderr)
            raise KeyboardInterrupt(stopped)
        return int(not self.study.passes(self.runs))


def carry_out_study(
    study: Study,
    command: Shown,
    typed: str = "",
    *,
    watch: WatchMaker | None = None,
    first: Callable[[], None] = lambda: None,
    most: int | None = None,
    in_list: bool = False,
    ready: Checked | None = None,
) -> CarriedOut:
    """``typed``: the command that repeats it. ``first``: called before any run. ``ready``: if it is checked already.

    ``watch``: makes the display of the runs, given how many of how many are finished already.
    ``most``: how many sections to print. ``in_list``: the caller prints the JSON, of several studies.
    """
    from gradsync.draw.console import make_console
    from gradsync.study.making.document import study_document

    typed = typed or shlex.join(["gradsync", *sys.argv[1:]])
    asked, folder, configs = ready or checked(study)
    first()
    console = make_console(command.json)
    with held(folder):
        prepare(folder, study, typed, asked)
        runs = make(study, folder, list(map(Planned, asked, configs)), console, watch)
        study.complete(runs)
    document = study_document(study, runs, folder, typed)
    page = None if not runs or stopped_by(runs) else write_report(document, folder)
    done = CarriedOut(study, folder, runs, len(asked), document, page)
    if not command.json:
        show_sections(document.sections[:most], console, command.details)
        places = [str(folder), *([str(page)] if page else [])]
        console.print("\n" + "\n".join(places), soft_wrap=True)
    elif not in_list:
        print_json(done.as_json())
    print_failures([run for run in runs if not run.out_of_memory])
    return done


class Checked(NamedTuple):
    """The runs asked for, the folder they go to, and their resolved settings."""

    asked: list[Asked]
    folder: Path
    configs: list[Resolved]


def checked(study: Study) -> Checked:
    """Resolve the plan of a study; anything wrong is refused."""
    from gradsync.cli.check import check, check_probe, suit

    plan = study.plan()
    trains = all(isinstance(asked, RunConfig) for asked in plan)
    asked = study.repeated(suit(plan) if trains else plan)
    folder = choose_folder(study, asked)
    asked = [replace(item, out=str(runs_folder(folder))) for item in asked]
    configs = check(asked) if trains else [config for item in asked for config in check_probe(item)]
    return Checked(asked, folder, configs)


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
    display = nullcontext(watch(finished, len(plan))) if watch else WatchStudy(console, missing, len(plan))
    with display as shown:
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
