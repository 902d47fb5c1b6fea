"""gradsync show: print what run folders, studies, and folders of them hold."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradsync.cli.commands import Show
from gradsync.cli.output import print_json, reason_with_folder, show_sections, summary_with_folder
from gradsync.errors import InputError
from gradsync.text import printable

if TYPE_CHECKING:
    from gradsync.study.making.found import Found


def show(command: Show) -> int:
    from gradsync.draw.console import make_console, say
    from gradsync.exhibit.columns import choose, metric_names
    from gradsync.exhibit.probe import probe_line
    from gradsync.exhibit.remarks import failures
    from gradsync.study.making.document import document
    from gradsync.study.making.found import found_in, in_window

    paths = command.runs or default_folders()
    found = found_in(paths)
    refuse_nothing(paths, found)
    choose(command.columns, [name for run in found.runs for name in metric_names(run.asked)])
    if command.window:
        found = in_window(found, command.window)
    if command.json:
        shown = [summary_with_folder(run) for run in (*found.runs, *found.probes)]
        print_json([*shown, *map(reason_with_folder, found.unreadable)])
        return 0
    console = make_console(json=False)
    aside = found.loose_probes if found.runs else []
    sections = document(without_probes(found) if aside else found, columns=command.columns, pictures=False).sections
    several = len(found.studies) + bool(found.loose_runs) > 1
    show_sections(sections, console, command.details, titles=several)
    told = failures([*found.runs, *found.probes])
    for line in (*told, *map(probe_line, aside), *map(str, found.unreadable), *found.left_out):
        say(line, sys.stdout)
    return 0


def default_folders() -> tuple[Path, ...]:
    """The folders that commands write to by default, if they exist."""
    usual = (Path("runs"), Path("studies"))
    return tuple(path for path in usual if path.is_dir()) or usual[:1]


def without_probes(found: Found) -> Found:
    """Next to runs, each loose benchmark is shown as one line instead of sections."""
    loose = {run.folder for run in found.loose_probes}
    return replace(found, probes=[run for run in found.probes if run.folder not in loose])


def refuse_nothing(given: Sequence[Path], found: Found) -> None:
    """Refuse folders that hold nothing to show."""
    if found.runs or found.probes or found.studies:
        return
    if found.unreadable:
        raise InputError("nothing can be shown:\n" + "\n".join(map(str, found.unreadable)))
    raise InputError(
        f"{', '.join(map(printable, given))} holds no run: there is no config.json in it or in a folder below it. "
        "Give the folders that `gradsync train` or `gradsync compare` printed, for instance runs/*."
    )
