"""The command that makes a page, or tables and charts for a paper, from run folders and studies."""

from __future__ import annotations

import sys
import webbrowser

from gradsync.cli.commands import Report
from gradsync.errors import InputError
from gradsync.text import printable


def report(command: Report) -> int:
    from gradsync.draw.export import form_and_path, write
    from gradsync.record.writing import is_own_file
    from gradsync.study.making.document import document
    from gradsync.study.making.found import collect, in_window

    form, path = form_and_path(command.format, command.out)
    if command.open and form != "html":
        raise InputError(f"--open shows a page: it does not go with --format {form}.")
    found = collect(command.paths)
    made = document(in_window(found, command.window) if command.window else found)
    written = write(made, path, form)
    if is_own_file(path) or path.is_dir():  # else this would be mixed into the report, on stdout or in a pipe
        print(printable("\n".join(map(str, written))))
    for text in made.left_out:
        print(f"left out: {text}", file=sys.stderr)
    if command.open:
        webbrowser.open(path.resolve().as_uri())
    return 0
