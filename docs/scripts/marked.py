"""The part of a page that a script writes: the text between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent


def write_or_check(page: str, name: str, text: str, script: str) -> int:
    """Put the text between the markers of a page; with --check only report whether the page is up to date."""
    parser = argparse.ArgumentParser(description=f"Write the part {name!r} of docs/{page} from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is out of date")
    asked = parser.parse_args()
    path = DOCS / page
    now = path.read_text()
    wanted = between(now, name, text)
    if now == wanted:
        return 0
    if asked.check:
        print(f"docs/{page} is out of date. Run: python docs/scripts/{script}", file=sys.stderr)
        return 1
    path.write_text(wanted)
    return 0


def between(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{text}\n\n{end}{after}"
