"""``gradsync data``: list the data sets on this machine, verify them, and fetch them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from gradsync.cli.commands import Fetch, List, VerifyData
from gradsync.cli.output import print_json
from gradsync.data import FILE_SETS, data_folder, find_files
from gradsync.draw.console import make_console
from gradsync.draw.terminal import draw
from gradsync.errors import InputError
from gradsync.exhibit.form import Column, Table


def data(action: Fetch | VerifyData | List) -> int:
    if isinstance(action, Fetch):
        return fetch(action)
    if isinstance(action, VerifyData):
        return verify(action)
    return list_sets(action)


def fetch(command: Fetch) -> int:
    from gradsync.data.fetch import fetch

    console = make_console(json=False)
    for files in [find_files(name) for name in command.names or FILE_SETS]:
        source = fetch(files, data_folder(), console, command.mirror)
        console.print(f"{files.name}: {source.path} ({source.form}), all hashes match", soft_wrap=True)
    return 0


def verify(command: VerifyData) -> int:
    """0 if everything asked for is here and intact, else 1."""
    folder = data_folder()
    names = command.names or [name for name, files in FILE_SETS.items() if files.locate(folder)]
    if not names:
        print(f"nothing to verify: neither {' nor '.join(FILE_SETS)} is in {folder}", file=sys.stderr)
        return 1
    code = 0
    for files in [find_files(name) for name in names]:
        try:
            files.read(folder)
            print(f"{files.name}: {files.source(folder).path}: all hashes match")
        except InputError as error:
            print(f"{files.name}: {error}", file=sys.stderr)
            code = 1
    return code


def list_sets(command: List) -> int:
    folder = data_folder()
    rows: list[dict[str, Any]] = []
    for name, files in FILE_SETS.items():
        source = files.locate(folder)
        rows.append(
            {
                "name": name,
                "found": source is not None,
                "path": str(source.path if source else folder),
                "form": source.form if source else None,
            }
        )
    if command.json:
        print_json(rows)
        return 0
    draw(table(rows), make_console(json=False))
    return 0


def table(rows: Sequence[dict[str, Any]]) -> Table:
    found = [[row["name"], "yes" if row["found"] else "no", row["form"], row["path"]] for row in rows]
    missing = [row["name"] for row in rows if not row["found"]]
    notes = [f"HINT: gradsync data fetch {' '.join(missing)}"] if missing else []
    columns = [Column("data set"), Column("here"), Column("form"), Column("folder")]
    return Table("Data sets", columns, [*found, ["synthetic", "always", "made from the seed", None]], notes)
