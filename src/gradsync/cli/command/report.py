"""The command that makes a page, or tables and charts for a paper, from run folders and studies."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from gradsync.commands import Report
from gradsync.errors import InputError, unknown
from gradsync.text import printable

SUFFIXES = {".html": "html", ".md": "md", ".json": "json", ".tex": "latex", ".csv": "csv"}
DEFAULT = {"html": "report.html", "md": "report.md", "json": "report.json", "latex": "report.tex"}


def report(command: Report) -> int:
    from gradsync.report.collect import collect
    from gradsync.report.document import document
    from gradsync.report.export import FORMATS, write
    from gradsync.writing import is_own_file

    form = command.format or SUFFIXES.get(command.out.suffix if command.out else "", "html")
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    if command.open and form != "html":
        raise InputError(f"--open shows a page: it does not go with --format {form}.")
    made = document(collect(command.paths))
    path = command.out or Path(DEFAULT.get(form, f"report-{form}"))
    written = write(made, path, form)
    if is_own_file(path) or path.is_dir():  # else what was written may be read from where this would go
        print(printable("\n".join(map(str, written))))
    for text in made.left_out:
        print(f"left out: {text}", file=sys.stderr)
    if command.open:
        webbrowser.open(path.resolve().as_uri())
    return 0


def write_beside(place: Path, folders: Sequence[Path], command: str = "") -> Path | None:
    """The page of a command that has just made these runs. If it cannot be written, that is told, and no more."""
    path = place / "report.html" if place.is_dir() else place
    try:
        from gradsync.report.collect import collect
        from gradsync.report.document import document
        from gradsync.report.export import write

        write(document(collect(folders), command), path, "html")
    except (InputError, ImportError) as error:
        print(f"gradsync: no report: {error}", file=sys.stderr)
        return None
    return path
