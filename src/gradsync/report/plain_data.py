"""A document for other programs: raw numbers instead of written ones."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import Any

from gradsync.exhibit import Document, Exhibit, Section, Spread, Table, Value


def plain(document: Document) -> dict[str, Any]:
    """As JSON has it: a spread becomes its mean and its deviation, and each exhibit says what it is."""
    environment = plain_exhibit(document.environment) if document.environment else None
    return {
        **asdict(document),
        "sections": [plain_section(section) for section in document.sections],
        "environment": environment,
    }


def plain_section(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "sentences": list(section.sentences),
        "exhibits": [plain_exhibit(exhibit) for exhibit in section.exhibits],
    }


def plain_exhibit(exhibit: Exhibit) -> dict[str, Any]:
    return {"exhibit": "table" if isinstance(exhibit, Table) else "chart", **asdict(exhibit)}


def csv_text(table: Table) -> str:
    """A column that has a spread somewhere is followed by one for its deviation; what is missing is empty."""
    spread = [any(isinstance(row[index], Spread) for row in table.rows) for index in range(len(table.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    headings = []
    for column, has_deviation in zip(table.columns, spread, strict=True):
        headings += [column.heading, f"{column.heading} deviation"] if has_deviation else [column.heading]
    writer.writerow(headings)
    for row in table.rows:
        fields: list[Value] = []
        for value, has_deviation in zip(row, spread, strict=True):
            mean = value.mean if isinstance(value, Spread) else value
            deviation = value.deviation if isinstance(value, Spread) else None
            fields += [mean, deviation] if has_deviation else [mean]
        writer.writerow(fields)
    return text.getvalue()
