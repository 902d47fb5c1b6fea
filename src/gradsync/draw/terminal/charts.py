"""Charts that make sense as text: stacked bars with a letter for each part, and counts of whole numbers.

Every other chart is left to the page.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from gradsync.draw.cells import one_line
from gradsync.draw.colours import colours
from gradsync.draw.series import Row, by_panel, drawable, labels_of, numbers, series_of
from gradsync.draw.terminal.words import longest, to_the_left, to_the_right
from gradsync.exhibit.form import Chart, Column

LONGEST_BAR = 60  # cells
SHORTEST_BAR = 20  # where names leave less, each is above its bar
LETTERS = {
    "data": "d",
    "copy": "c",
    "forward": "f",
    "backward": "b",
    "wait": "-",
    "wire": "~",
    "optimizer": "o",
    "other": ".",
    "compute": "c",
    "communication": "~",
    "hidden communication": "h",
}
BLOCK = "▇"


def chart_lines(chart: Chart, width: int, block: str = BLOCK) -> list[Text]:
    """No lines for a chart that only the page shows."""
    rows = [
        {field: one_line(value) if isinstance(value, str) else value for field, value in row.items()}
        for row in drawable(chart)
    ]
    if chart.kind == "stack":
        return stack_lines(chart, rows, width)
    if is_histogram(chart):
        return histogram_lines(chart, rows, width, block)
    return []


def is_histogram(chart: Chart) -> bool:
    """Bars of one series over whole numbers."""
    series = {row.get(chart.colour) for row in chart.rows} if chart.colour else set()
    is_whole = all(isinstance(row.get(chart.x.field), int) for row in chart.rows)
    return chart.kind == "bars" and bool(chart.rows) and len(series) < 2 and is_whole


def stack_lines(chart: Chart, rows: Sequence[Row], width: int) -> list[Text]:
    """One bar for each name, as long as its parts together, and a legend of the letters below."""
    series = series_of(chart, rows)
    letters, inks = letters_of(series), colours(series)
    bars = {
        (panel, name): lengths(chart, found, name, series)
        for panel, found in by_panel(chart, rows)
        for name in labels_of(found, chart.x.field)
    }
    most = max(map(sum, bars.values()), default=0.0) or 1.0
    beside = longest([name for _, name in bars]) + 1
    is_above = width - beside < SHORTEST_BAR
    room = min(LONGEST_BAR, width if is_above else width - beside)
    lines: list[Text] = []
    panel = ""
    for (above, name), parts in bars.items():
        if above != panel:
            panel = above
            lines += [Text(), Text(panel)] if lines else [Text(panel)]
        if is_above:
            lines.append(Text(name))
        line = Text("" if is_above else to_the_left(name, beside))
        for letter, ink, count in zip(letters, inks, in_cells([part / most * room for part in parts]), strict=True):
            line.append(letter * count, style=f"{ink} reverse")
        lines.append(line)
    return lines + legend_lines(series, letters, inks, width) if lines else []


def lengths(chart: Chart, rows: Sequence[Row], name: str, series: Sequence[str]) -> list[float]:
    """The length of each part of one bar; rounding may have left a value below 0."""
    own = [row for row in rows if row[chart.x.field] == name]
    values = [numbers((row for row in own if row.get(chart.colour) == part), chart.y.field) for part in series]
    return [sum(max(0.0, value) for value in found) for found in values]


def in_cells(sizes: Sequence[float]) -> list[int]:
    """Whole cells for each part; rounding is carried along, so that the bar as a whole has the right length."""
    counts, end, drawn = [], 0.0, 0
    for size in sizes:
        end += size
        counts.append(max(0, round(end) - drawn))
        drawn += counts[-1]
    return counts


def letters_of(series: Sequence[str]) -> list[str]:
    """One letter for each part, for pipes and for readers who do not see the colours."""
    found: list[str] = []
    for name in series:
        wanted = [LETTERS.get(name, ""), *name.lower(), *"abcdefghijklmnopqrstuvwxyz0123456789"]
        free = (letter for letter in wanted if letter and letter != " " and letter not in found)
        found.append(next(free, "?"))
    return found


def legend_lines(series: Sequence[str], letters: Sequence[str], inks: Sequence[str], width: int) -> list[Text]:
    lines = [Text()]
    for name, letter, ink in zip(series, letters, inks, strict=True):
        if lines[-1].cell_len and lines[-1].cell_len + 2 + longest([f"{letter} {name}"]) > width:
            lines.append(Text())
        lines[-1].append("  " if lines[-1].cell_len else "")
        lines[-1].append(letter, style=f"{ink} reverse")
        lines[-1].append(f" {name}")
    return lines


def histogram_lines(chart: Chart, rows: Sequence[Row], width: int, block: str) -> list[Text]:
    """A line for each whole number, in their order, with how often it was counted."""
    lines: list[Text] = []
    for panel, found in by_panel(chart, rows):
        counts = {row[chart.x.field]: row[chart.y.field] for row in found}
        texts = {name: Column("").text(count) for name, count in counts.items()}
        beside = longest([*counts, chart.x.heading])
        room = max(1, min(LONGEST_BAR, width - beside - longest(list(texts.values())) - 2))
        most = max(counts.values(), default=1) or 1
        lines += [Text(), Text(panel)] if panel and lines else [Text(panel)] if panel else []
        lines.append(Text(to_the_right(chart.x.heading, beside)))
        for name, count in counts.items():
            bar = block * (max(1, round(count / most * room)) if count else 0)
            lines.append(Text(" ".join(filter(None, [to_the_right(name, beside), bar, texts[name]]))))
    return lines
