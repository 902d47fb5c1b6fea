"""What the commands print: sections on the terminal, records as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradsync.exhibit.form import Section
from gradsync.exhibit.remarks import failure
from gradsync.record import DamagedRecord, Recorded, UnreadableRecord, strict_json

if TYPE_CHECKING:
    from rich.console import Console


def show_sections(sections: Sequence[Section], console: Console, details: bool, titles: bool = False) -> None:
    """``details``: also what a terminal leaves out unless it is asked for. Failures are printed elsewhere."""
    from gradsync.draw.terminal import draw

    for section in sections:
        if (details or not section.detail) and not section.failures:
            if titles:
                console.print(f"\n{section.title}", style="bold underline")
            draw(section, console)


def print_failures(runs: Sequence[Recorded]) -> None:
    """Last of all: a line for each run that was not completed, below the traceback if the user's code raised it."""
    from gradsync.draw.console import say

    sys.stdout.flush()
    for run in runs:
        if run.status != "completed":
            if run.error and run.error.traceback:
                print(run.error.traceback.rstrip(), file=sys.stderr)
            say(failure(run), sys.stderr)


def summary_with_folder(run: Recorded) -> dict[str, Any]:
    """The summary of a run with its folder and, if it has one, its certificate."""
    figures = run.summary.to_dict() if run.summary else {"status": run.status, "config": run.config}
    return {"folder": str(run.folder), **figures, **certificate_of(run)}


def certificate_of(run: Recorded) -> dict[str, Any]:
    from gradsync.record.certificate import read_certificate

    certificate = read_certificate(run.folder)
    return {"certificate": certificate.to_dict()} if certificate else {}


def reason_with_folder(error: UnreadableRecord) -> dict[str, Any]:
    status = "damaged" if isinstance(error, DamagedRecord) else "unreadable"
    return {"folder": str(error.folder), "status": status, "reason": error.reason}


def print_json(value: Any, indent: int | None = 2) -> None:
    """JSON that every parser reads: NaN and infinity are null. ``indent``: None for a single line."""
    print(strict_json(value, indent))
