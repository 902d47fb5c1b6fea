"""The numbers of a chart and those of a table beside it that shows the same figures."""

from __future__ import annotations

from collections.abc import Iterator

from gradsync.exhibit.form import Chart, Document, Table
from gradsync.figures.value import mean_of

SUMS = {  # what a chart adds up, and the columns that a table shows of it
    "compute": ("copy", "forward", "backward", "optimizer"),
    "communication": ("wait", "wire"),
    "other": ("data", "other"),
    "hidden communication": ("hidden",),
}
FIRST = " against the first"

Pair = tuple[list[float | None], list[float | None]]


def shared_numbers(document: Document) -> dict[str, list[Pair]]:
    """For each chart: what each of its series draws, and what a table of its section says of the same."""
    found: dict[str, list[Pair]] = {}
    for section in document.sections:
        tables = [item for item in section.exhibits if isinstance(item, Table)]
        for chart in (item for item in section.exhibits if isinstance(item, Chart)):
            if pairs := [pair for table in tables for pair in of_series(chart, table)]:
                found[chart.title] = pairs
    return found


def of_series(chart: Chart, table: Table) -> Iterator[Pair]:
    for name in dict.fromkeys(str(row[chart.colour]) for row in chart.rows if chart.colour):
        own = [row for row in chart.rows if row[chart.colour] == name]
        if said := numbers(table, chart, name, [str(row[chart.x.field]) for row in own]):
            yield [mean_of(row[chart.y.field]) for row in own], said


def numbers(table: Table, chart: Chart, series: str, places: list[str]) -> list[float | None]:
    """None where the table has no column for it, or none with this unit: it shows another figure then."""
    headings = [column.heading for column in table.columns]
    unit, rows = chart.y.unit, list(table.rows)
    if chart.title == "Computation against communication":
        parts = [headings.index(f"{part} ({unit})") for part in SUMS[series]]
        return [sum(mean_of(row[part]) or 0.0 for part in parts) for row in rows if row[0] in places]
    if "figure" in headings:
        figure = chart.y.title.removesuffix(FIRST)
        rows = [row for row in rows if str(row[headings.index("figure")]).split(" (")[0] == figure]
    wanted = (chart.y.heading, f"{series} ({unit})", f"{series},{FIRST} ({unit})")
    column = next((headings.index(heading) for heading in wanted if heading in headings), None)
    if column is None:
        return []
    names = [index for index, other in enumerate(headings) if other == chart.colour]  # of a row for each series
    return [mean_of(row[column]) for row in rows if all(row[index] == series for index in names)]
