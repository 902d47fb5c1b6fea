"""Tables read back from what was drawn: from lines of a terminal, from a page, and from CSV."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

from exhibited import text
from gradsync.draw.cells import Cells, cells, one_line
from gradsync.draw.data import raw_cells
from gradsync.exhibit.form import Table
from gradsync.figures.value import NOTHING, Spread, Value

RULE = "─"

Rows = list[list[str]]


@dataclass
class PageTable:
    title: str = ""
    headings: list[str] = field(default_factory=list)
    rows: Rows = field(default_factory=list)


class Page(HTMLParser):
    """The tables and the sentences of a page in their order, as a reader sees them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[PageTable] = []
        self.sentences: list[str] = []
        self._list = ""  # the class of the one that is open
        self._words: list[str] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "ul":
            self._list = dict(attrs).get("class") or ""
        elif (tag == "li" and self._list == "summary") or (tag == "p" and not attrs):
            self._words = []
        elif tag == "table":
            self.tables.append(PageTable())
        elif tag == "tr" and self.tables[-1].headings:
            self.tables[-1].rows.append([])
        elif tag in ("caption", "th", "td"):
            self._words = []

    def handle_data(self, data: str) -> None:
        if self._words is not None:
            self._words.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._list = "" if tag == "ul" else self._list
        if tag not in ("caption", "th", "td", "li", "p") or self._words is None:
            return
        found = "".join(self._words).strip()
        self._words = None
        if tag in ("li", "p"):
            self.sentences.append(found)
            return
        table = self.tables[-1]
        if tag == "caption":
            table.title = found
        elif table.rows:
            table.rows[-1].append(found)
        else:
            table.headings.append(found)


def table_text(table: Table, width: int) -> str:
    """As a terminal shows it, without title and notes."""
    return text(replace(table, title="", notes=()), width).strip("\n")


def read_terminal(table: Table, width: int) -> Rows:
    """The cells in lines of that width; a table that is divided has those that name the rows in every part."""
    drawn, shown = table_text(table, width), cells(table)
    if RULE * 3 not in drawn:
        return read_blocks(drawn, shown, width)
    rows: Rows = [[] for _ in shown.rows]
    place = 0
    for part in drawn.split("\n\n"):
        found = read_grid(part, shown)
        names = 0  # leading columns that are there again
        while place and all(row[: names + 1] == whole[: names + 1] for row, whole in zip(found, rows, strict=True)):
            names += 1
        for row, whole in zip(found, rows, strict=True):
            whole += row[names:]
        place = len(rows[0]) if rows else 0
    return rows


def read_grid(part: str, shown: Cells) -> Rows:
    """Columns are what lies between two blanks or more, in the headings and in all rows."""
    lines = part.split("\n")
    rule = next(index for index, line in enumerate(lines) if line.startswith(RULE * 3))
    drawn = [line for index, line in enumerate(lines) if index != rule]
    width = max(map(len, drawn))
    used = "".join("x" if any(line[at : at + 1].strip() for line in drawn) else " " for at in range(width))
    spans = [match.span() for match in re.finditer(r"x+( x+)*", used)]
    rows: Rows = []
    for line in lines[rule + 1 :]:
        fields = [line[begin:end].strip() for begin, end in spans]
        if continues(fields, rows, shown):
            rows[-1] = [" ".join(filter(None, both)) for both in zip(rows[-1], fields, strict=True)]
        else:
            rows.append(fields)
    return rows


def continues(fields: Sequence[str], rows: Rows, shown: Cells) -> bool:
    """Whether a line goes on with the sentences of the row before: that row is not whole yet."""
    if not rows or len(rows) > len(shown.rows):
        return False
    words = Counter(word for cell in shown.rows[len(rows) - 1] for word in cell.split())
    more = [word for cell in (*rows[-1], *fields) for word in cell.split()]
    is_shorter = any(not cell for cell in fields)
    return is_shorter and not Counter(more) - words


def read_blocks(drawn: str, shown: Cells, width: int) -> Rows:
    """A block for each row: every cell after its own heading, and nothing else."""
    blocks = drawn.split("\n\n")
    assert len(blocks) == len(shown.rows)
    for block, row in zip(blocks, shown.rows, strict=True):
        headings, words = [column.heading for column in shown.columns], block.split()
        assert Counter(words) == Counter(word for cell in (*headings, *row) for word in cell.split()), block
        for index, (heading, cell) in enumerate(zip(headings, row, strict=True)):
            in_one_line = len(heading) <= width // 2 and not shown.is_prose(index)
            assert not in_one_line or f"{heading} {cell}".strip() in " ".join(words), block
    return [list(row) for row in shown.rows]


def read_csv(table: Table, path: Path) -> Rows:
    """The numbers of the file written as their columns say, and text as it is.

    Columns without any value are left out, as elsewhere.
    """
    with open(path, newline="") as file:
        headings, *lines = list(csv.reader(file))
    assert headings == raw_cells(table)[0]
    found: list[list[Value]] = [[] for _ in lines]
    place = 0
    for index, column in enumerate(table.columns):
        is_followed = headings[place + 1 : place + 2] == [f"{one_line(column.heading)} deviation"]
        for row, values, line in zip(table.rows, found, lines, strict=True):
            mean, deviation = number(line[place]), number(line[place + 1]) if is_followed else None
            values.append(line[place] if isinstance(row[index], str) else spread(mean, deviation))
        place += 1 + is_followed
    kept = [index for index in range(len(table.columns)) if any(row[index] is not None for row in table.rows)]
    return [[one_line(table.columns[index].text(row[index])) for index in kept] for row in found]


def spread(mean: Value, deviation: Value) -> Value:
    if isinstance(mean, (int, float)) and isinstance(deviation, (int, float)):
        return Spread(mean, deviation)
    return mean


def number(field: str) -> Value:
    for kind in (int, float):
        try:
            return kind(field)
        except ValueError:
            continue
    return field or None


def without_dashes(rows: Sequence[Sequence[str]]) -> Rows:
    """CSV has no dash for what is missing, and no text that is empty."""
    return [["" if cell == NOTHING else cell for cell in row] for row in rows]
