"""Writes the table of all figures into docs/measuring/figures.md, from the catalogue in src/gradsync/figures.

python docs/scripts/figure_table.py writes the table; with --check it only checks that the page is up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from marked import write_or_check

from gradsync.exhibit.columns import COLUMNS
from gradsync.figures.catalogue import FIGURES, ROOMS, figures_in


def table(rows: list[tuple[str, str, str, str]]) -> str:
    lines = ["| name | title | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {title} | {unit} | {meaning} |" for name, title, unit, meaning in rows]
    return "\n".join(lines)


def facts() -> str:
    """Columns that are not figures of the catalogue."""
    others = {name: choice.column.name for name, choice in COLUMNS.items() if name not in FIGURES}
    return table([(name, title, "–", "setting of the run") for name, title in others.items()])


def written() -> str:
    parts = ["## Settings of the run", facts()]
    for title, room in ROOMS.items():
        rows = [(each.name, each.title, each.bare_unit or "–", each.meaning) for each in figures_in(room)]
        parts += [f"## {title}", table(rows)]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_check("measuring/figures.md", "figures", written(), Path(__file__).name))
