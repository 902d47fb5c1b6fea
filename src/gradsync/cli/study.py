"""Carry out any study: make its runs, then show the results on the terminal, as a page, as tables, as JSON."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gradsync.cli.commands import StudyRuns
from gradsync.cli.output import print_failures, print_json, show_sections, summary_with_folder
from gradsync.config.values import counted
from gradsync.exhibit.form import Document
from gradsync.library.runs.nodes import on_nodes
from gradsync.library.runs.studies import Checked, WatchMaker, checked, made, stopped_by, write_report
from gradsync.study.making.base import Study


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
    ready = ready or checked(study)
    first()
    console = make_console(command.json)
    folder, runs = ready.folder, made(study, ready, typed, console, watch)
    document = study_document(study, runs, folder, typed)
    page = None if not runs or stopped_by(runs) else write_report(document, folder)
    done = CarriedOut(study, folder, runs, len(ready.asked), document, page)
    if not command.json:
        show_sections(document.sections[:most], console, command.details)
        places = [str(folder), *([str(page)] if page else [])]
        console.print("\n" + "\n".join(places), soft_wrap=True)
    elif not in_list:
        print_json(done.as_json())
    print_failures([run for run in runs if not run.out_of_memory])
    return done
