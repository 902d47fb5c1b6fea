"""A table in lines of a terminal: as one table, divided into several, or turned so that each row is a block.

A number or a name is never split; only prose and headings are broken, between words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradsync.draw.cells import cells
from gradsync.draw.terminal.words import least_width, longest, longest_word, to_the_left, to_the_right, wrapped
from gradsync.exhibit.form import Column, Table

GAP = 2  # cells between two columns
NARROWEST_PROSE = 24
ANY = 99  # lines of a heading: as many as it has words
WHOLE_NUMBER = re.compile(r"[\d,]+")


@dataclass(frozen=True)
class TextColumn:
    """One column: its heading and the text of its cells."""

    column: Column
    texts: Sequence[str]
    is_text: bool
    is_prose: bool
    """Whether its cells may be broken between words."""

    def least(self, heading_lines: int) -> int:
        """The narrowest it can be, if its name may take ``heading_lines`` lines."""
        heading = max(least_width(self.column.name, heading_lines), least_width(self.column.unit, heading_lines))
        if not self.is_prose:
            return max(heading, longest(self.texts))
        return max(heading, min(NARROWEST_PROSE, longest(self.texts)), *map(longest_word, self.texts))

    def heading(self, width: int) -> list[str]:
        """The unit is below the name."""
        return wrapped(self.column.name, width) + (wrapped(self.column.unit, width) if self.column.unit else [])

    def lines(self, row: int, width: int) -> list[str]:
        return wrapped(self.texts[row], width) if self.is_prose else [self.texts[row]]

    def aligned(self, text: str, width: int) -> str:
        return to_the_left(text, width) if self.is_text else to_the_right(text, width)


def table_lines(table: Table, width: int, rule: str = "─") -> list[str]:
    """The lines of a table without its title and its notes."""
    found = cells(table)
    fields = [
        TextColumn(column, found.texts(index), found.is_text[index], found.is_prose(index))
        for index, column in enumerate(found.columns)
    ]
    if not fields:
        return []
    if widths(fields, width, ANY):
        return grid(fields, width, rule)
    turned = list(blocks(fields, width))
    groups = divided(fields, width, 2) or divided(fields, width, ANY)
    if not groups:
        return turned
    several = [line for group in groups for line in ["", *grid(group, width, rule)]][1:]
    return turned if found.rows and len(turned) < len(several) else several


def widths(fields: Sequence[TextColumn], width: int, heading_lines: int) -> list[int] | None:
    """The width of each column, where prose shares the room that is left; None if there is too little."""
    found = [field.least(heading_lines) for field in fields]
    left = width - sum(found) - GAP * (len(found) - 1)
    if left < 0:
        return None
    wanting = [index for index, field in enumerate(fields) if field.is_prose]
    wanting.sort(key=lambda index: longest(fields[index].texts) - found[index])
    for place, index in enumerate(wanting):
        share = max(0, min(longest(fields[index].texts) - found[index], left // (len(wanting) - place)))
        found[index] += share
        left -= share
    return found


def grid(fields: Sequence[TextColumn], width: int, rule: str) -> list[str]:
    """One table. Headings take as few lines as the width allows."""
    found = next(found for lines in (1, 2, ANY) if (found := widths(fields, width, lines)))
    sized = list(zip(fields, found, strict=True))
    headings = [field.heading(size) for field, size in sized]
    tallest = max(map(len, headings))
    above = [[""] * (tallest - len(heading)) + heading for heading in headings]
    lines = [*side_by_side(sized, above), rule * (sum(found) + GAP * (len(found) - 1))]
    for row in range(len(fields[0].texts)):
        lines += side_by_side(sized, [field.lines(row, size) for field, size in sized])
    return lines


def side_by_side(sized: Sequence[tuple[TextColumn, int]], texts: Sequence[Sequence[str]]) -> Iterator[str]:
    for line in range(max(map(len, texts))):
        parts = [
            field.aligned(lines[line] if line < len(lines) else "", size)
            for (field, size), lines in zip(sized, texts, strict=True)
        ]
        yield (" " * GAP).join(parts).rstrip()


def divided(fields: Sequence[TextColumn], width: int, heading_lines: int) -> list[list[TextColumn]] | None:
    """Groups of columns that fit, each after the columns that name the rows; None where one of them does not fit."""
    names = naming(fields)
    groups: list[list[TextColumn]] = []
    for field in fields[len(names) :]:
        if groups and widths([*groups[-1], field], width, heading_lines):
            groups[-1].append(field)
        elif widths([*names, field], width, heading_lines):
            groups.append([*names, field])
        else:
            return None
    return groups or None


def naming(fields: Sequence[TextColumn]) -> list[TextColumn]:
    """The leading columns that tell the rows apart: texts, and whole numbers such as a number of workers.

    Where no such columns do, the leading texts; at least the first column.
    """
    texts = 0
    while texts < len(fields) and fields[texts].is_text and not fields[texts].is_prose:
        texts += 1
    numbers = texts
    while numbers < len(fields) and all(WHOLE_NUMBER.fullmatch(text) for text in fields[numbers].texts):
        numbers += 1
    for count in range(1, numbers + 1):
        rows = list(zip(*(field.texts for field in fields[:count]), strict=True))
        if len(set(rows)) == len(rows):
            return list(fields[:count])
    return list(fields[: max(1, texts)])


def blocks(fields: Sequence[TextColumn], width: int) -> Iterator[str]:
    """One block for each row, a line for each column. What does not fit beside its heading is below it."""
    headings = [wrapped(field.column.heading, max(width // 2, 1)) for field in fields]
    beside = max(map(longest, headings)) + GAP
    if not fields[0].texts:
        yield from (line for heading in headings for line in heading)
    for row in range(len(fields[0].texts)):
        if row:
            yield ""
        for field, heading in zip(fields, headings, strict=True):
            values = field.lines(row, width - beside)
            if beside + longest(values) > width:
                yield from heading
                yield from (f"{' ' * GAP}{line}" if GAP + longest([line]) <= width else line for line in values)
                continue
            for line in range(max(len(heading), len(values))):
                left = heading[line] if line < len(heading) else ""
                right = values[line] if line < len(values) else ""
                yield (to_the_left(left, beside) + right).rstrip()
