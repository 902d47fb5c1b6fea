"""Sections on a terminal: their tables and sentences. Charts are for the page."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as RichTable

from gradsync.exhibit import Section, Table
from gradsync.report.cells import cells
from gradsync.report.tables import plain_table


def draw(section: Section, console: Console) -> None:
    for exhibit in section.exhibits:
        if isinstance(exhibit, Table):
            console.print()
            console.print(drawn(exhibit))
    if section.sentences:
        console.print()
        console.print("\n".join(section.sentences), markup=False, highlight=False)


def drawn(table: Table) -> RichTable:
    """Numbers to the right, text to the left; a column without any value is left out."""
    shown = cells(table)
    found = plain_table(table.title, " ".join(table.notes))
    for column, is_text in zip(shown.columns, shown.is_text, strict=True):
        heading = f"{column.name}\n{column.unit}" if column.unit else column.name
        found.add_column(heading, justify="left" if is_text else "right", overflow="fold")
    for row in shown.rows:
        found.add_row(*row)
    return found
