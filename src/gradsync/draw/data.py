"""A document for other programs: raw numbers, in the unit of their column, instead of formatted ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gradsync.draw.cells import one_line
from gradsync.exhibit.form import Document, Exhibit, Section, Table
from gradsync.figures.value import Spread, Value


def plain(document: Document) -> dict[str, Any]:
    """As it is written to JSON: a spread becomes its mean and its deviation, and each exhibit says what it is."""
    return {
        **vars(document),
        "sections": [plain_section(section) for section in document.sections],
        "environment": plain_exhibit(document.environment) if document.environment else None,
    }


def plain_section(section: Section) -> dict[str, Any]:
    return {**vars(section), "exhibits": [plain_exhibit(exhibit) for exhibit in section.exhibits]}


def plain_exhibit(exhibit: Exhibit) -> dict[str, Any]:
    return {"exhibit": "table" if isinstance(exhibit, Table) else "chart", **asdict(exhibit)}


def csv_text(table: Table) -> str:
    """CSV as a spreadsheet reads it."""
    text = io.StringIO()
    headings, rows = raw_cells(table)
    csv.writer(text, lineterminator="\n").writerows([headings, *rows])
    return text.getvalue()


def raw_cells(table: Table) -> tuple[list[str], list[list[Value]]]:
    """Headings, and rows of numbers and texts; what is missing is None.

    A column that has a spread somewhere is followed by one for its deviation. No column is left out.
    """
    has_deviation = [any(isinstance(value, Spread) for value in values) for values in by_column(table)]
    headings: list[str] = []
    for column, further in zip(table.columns, has_deviation, strict=True):
        heading = one_line(column.heading)
        headings += [heading, f"{heading} deviation"] if further else [heading]
    rows = []
    for row in table.rows:
        fields: list[Value] = []
        for value, further in zip(row, has_deviation, strict=True):
            mean, deviation = (value.mean, value.deviation) if isinstance(value, Spread) else (value, None)
            fields += [mean, deviation] if further else [mean]
        rows.append(fields)
    return headings, rows


def by_column(table: Table) -> list[Sequence[Value]]:
    return [[row[index] for row in table.rows] for index in range(len(table.columns))]
