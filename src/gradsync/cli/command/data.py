"""``gradsync data``: which data sets are here, are they right, and get them."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.table import Table

from gradsync.commands import Fetch, List, VerifyData
from gradsync.data import FILE_SETS, data_folder, find_files
from gradsync.errors import InputError
from gradsync.report.console import make_console


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
        console.print(f"{files.name}: {source.path} ({source.form}), every hash right", soft_wrap=True)
    return 0


def verify(command: VerifyData) -> int:
    """0 if all that was asked for is here and right, else 1."""
    folder = data_folder()
    names = command.names or [name for name, files in FILE_SETS.items() if files.locate(folder)]
    if not names:
        print(f"nothing to verify: neither {' nor '.join(FILE_SETS)} is in {folder}", file=sys.stderr)
        return 1
    code = 0
    for files in [find_files(name) for name in names]:
        try:
            files.read(folder)
            print(f"{files.name}: {files.find(folder).path}: every hash right")
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
        print(json.dumps(rows, indent=2))
        return 0
    table = Table("data set", "here", "form", "folder", box=None)
    for row in rows:
        here = "yes" if row["found"] else f"no: gradsync data fetch {row['name']}"
        table.add_row(row["name"], here, row["form"] or "", row["path"])
    table.add_row("synthetic", "always", "made from the seed", "")
    make_console(json=False).print(table)
    return 0
