"""Writes the table of all figures into docs/measuring/figures.md, from the catalogue in src/gradsync/figures.

python docs/scripts/figure_table.py writes the table; with --check it only checks that the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from marked import write_or_check

from gradsync.exhibit.columns import COLUMNS
from gradsync.figures.catalogue import FIGURES, ROOMS, figures_in
from gradsync.figures.catalogue.of_speed_up import Relative
from gradsync.figures.figure import FigureOf
from gradsync.figures.value import written

EXAMPLE = 12.3456  # as a number; as a share it is 0.123456


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def example(figure: FigureOf[Any]) -> str:
    return written(EXAMPLE / 100 if figure.form.endswith("%") else EXAMPLE, figure.form)


def has_deviation(figure: FigureOf[Any]) -> bool:
    return figure.deviation is not None or isinstance(figure, Relative)


MARKS = {True: "yes", False: "–"}


def facts() -> str:
    """Columns that are not figures of the catalogue."""
    others = {name: choice.column.name for name, choice in COLUMNS.items() if name not in FIGURES}
    return table(["name", "title"], ([f"`{name}`", title] for name, title in others.items()))


def text() -> str:
    parts = ["## Settings of the run", facts()]
    for title, room in ROOMS.items():
        rows = [
            (
                f"`{each.name}`",
                each.title,
                each.bare_unit or "–",
                example(each),
                MARKS[has_deviation(each)],
                each.meaning,
            )
            for each in figures_in(room)
        ]
        parts += [f"## {title}", table(["name", "title", "unit", "written", "±", "meaning"], rows)]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_check("measuring/figures.md", "figures", text(), Path(__file__).name))
