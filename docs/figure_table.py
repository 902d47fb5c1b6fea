"""Writes the table of all figures into docs/figures.md, from the catalogue in src/gradsync/figures.

python docs/figure_table.py writes the table; with --check it only checks that the page is up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from marked import write_or_check

from gradsync.exhibit.columns import COLUMNS
from gradsync.figures.catalogue import FIGURES, ROOMS, figures_in
from gradsync.figures.figure import Figure


def unit_of(figure: Figure) -> str:
    return "%" if figure.form.endswith("%") else figure.unit or "–"


def table(rows: list[tuple[str, str, str, str]]) -> str:
    lines = ["| name | title | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {title} | {unit} | {meaning} |" for name, title, unit, meaning in rows]
    return "\n".join(lines)


def facts() -> str:
    """Columns that are not figures of the catalogue: the settings of the run, and how it compares with another."""
    rows = []
    for name, choice in COLUMNS.items():
        if name not in FIGURES:
            unit = "%" if choice.column.form.endswith("%") else choice.column.unit or "–"
            meaning = choice.note.removeprefix(f"{choice.column.name}: ") or "setting of the run"
            rows.append((name, choice.column.name, unit, meaning))
    return table(rows)


def written() -> str:
    parts = ["## Settings of the run, and speed-up", facts()]
    for title, room in ROOMS.items():
        rows = [(each.name, each.title, unit_of(each), each.meaning) for each in figures_in(room)]
        parts += [f"## {title}", table(rows)]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_check("figures.md", "figures", written(), Path(__file__).name))
