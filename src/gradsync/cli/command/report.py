"""The command that makes a page, or tables and charts for a paper, from run folders and studies."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

from gradsync.cli.commands import Report
from gradsync.errors import InputError, unknown
from gradsync.text import printable

SUFFIXES = {".html": "html", ".md": "md", ".json": "json", ".tex": "latex", ".csv": "csv"}
DEFAULT = {"html": "report.html", "md": "report.md", "json": "report.json", "latex": "report.tex"}


def report(command: Report) -> int:
    from gradsync.draw.export import FORMATS, write
    from gradsync.record.writing import is_own_file
    from gradsync.study.making.document import document
    from gradsync.study.making.found import collect, in_window

    form = command.format or SUFFIXES.get(command.out.suffix if command.out else "", "html")
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    if command.open and form != "html":
        raise InputError(f"--open shows a page: it does not go with --format {form}.")
    found = collect(command.paths)
    made = document(in_window(found, command.window) if command.window else found)
    path = command.out or Path(DEFAULT.get(form, f"report-{form}"))
    written = write(made, path, form)
    if is_own_file(path) or path.is_dir():  # else this would be mixed into the report, on stdout or in a pipe
        print(printable("\n".join(map(str, written))))
    for text in made.left_out:
        print(f"left out: {text}", file=sys.stderr)
    if command.open:
        webbrowser.open(path.resolve().as_uri())
    return 0
