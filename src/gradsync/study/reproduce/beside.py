"""One table or figure of a report: the published values next to ours.

Times, rates, CPU and memory are those of two different machines: each side is shown against its own first row, and
these ratios can be compared. Bytes, losses, accuracies and speed-ups are compared as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.exhibit.form import OURS, PUBLISHED, Axis, Chart, Column, Exhibit, Section, Table, is_wide
from gradsync.exhibit.runs.network import network
from gradsync.exhibit.speed_ups import beyond_ideal, explained
from gradsync.figures.cases import Case
from gradsync.figures.catalogue import find_figure
from gradsync.figures.catalogue.of_speed_up import Relative, SpeedUp, compared
from gradsync.figures.catalogue.of_time import is_projected
from gradsync.figures.figure import UNITS
from gradsync.figures.value import Spread, Value, mean_of, ratio, scaled
from gradsync.study.reproduce.ours import not_learnt, value_of
from gradsync.study.reproduce.published import PublishedExhibit, PublishedRow

FEW = 8  # values that go into one table


def quotient(one: Value, other: Value) -> float | None:
    return mean_of(ratio(one, other))


@dataclass(frozen=True)
class Comparison:
    item: PublishedExhibit
    ours: dict[str, Case]
    notes: Sequence[str]

    def section(self) -> Section:
        """With what must be said beside speed-ups."""
        doubts = list(beyond_ideal([(f"{self.item.name}, {row.name}", item) for row, item in self.speed_ups]))
        ideals = explained([(item.case, item) for _, item in self.speed_ups])
        return Section(f"{self.item.name}: {self.item.title}", self.exhibits(), [*doubts, *ideals], doubts=doubts)

    @property
    def speed_ups(self) -> list[tuple[PublishedRow, SpeedUp]]:
        """Of the rows that have one."""
        if not any(isinstance(find_figure(name), Relative) for name in self.item.figures):
            return []
        pairs = [(row, self.ours.get(row.place.run), self.ours.get(row.against)) for row in self.item.rows]
        return [
            (row, item)
            for row, case, base in pairs
            if case and base and case.completed and base.completed and (item := compared(case, base))
        ]

    def exhibits(self) -> list[Exhibit]:
        """A table and a chart for each figure, or one table for all figures if there is little to show."""
        figures = list(self.item.figures)
        title = f"{self.item.name}: {self.item.title}"
        if len(figures) * len(self.item.rows) <= FEW:
            return [
                self.table(title, figures),
                *(chart for name in figures for chart in self.chart(name)),
                *self.over_time(),
            ]
        found: list[Exhibit] = []
        for name in figures:
            found += [self.table(f"{self.item.name}: {self.heading(name)}", [name]), *self.chart(name)]
        return found + self.over_time()

    def our_value(self, row: PublishedRow, figure: str) -> Value:
        """Our value for a row, in the unit of the exhibit."""
        case = self.ours.get(row.place.run)
        found = value_of(figure, case, row.place.rank, row.x, self.ours.get(row.against)) if case else None
        return scaled(found, UNITS[self.item.figures[figure]])

    def values(self, figure: str) -> dict[str, list[Value]]:
        rows = self.item.rows
        return {
            PUBLISHED: [row.values.get(figure) for row in rows],
            OURS: [self.our_value(row, figure) for row in rows],
        }

    def heading(self, figure: str) -> str:
        unit = self.item.figures[figure]
        title = find_figure(figure).full_title
        return f"{title} ({unit})" if unit else title

    def table(self, title: str, figures: Sequence[str]) -> Table:
        forms = [find_figure(name).form_in(self.item.figures[name]) for name in figures for _ in self.item.rows]
        columns = [
            Column(self.item.over if self.one_place else "run", form="g"),
            Column("figure"),
            Column(PUBLISHED, form=forms),
            Column(OURS, form=forms),
            Column(f"{PUBLISHED}, against the first", "×", ".2f"),
            Column(f"{OURS}, against the first", "×", ".2f"),
            Column("ours over published", "", ".2f"),
        ]
        rows: list[list[Value]] = []
        for figure in figures:
            relative = find_figure(figure).compared == "relative"
            against_first = relative and len(self.item.rows) > 1
            theirs, own = self.values(figure).values()
            for index, row in enumerate(self.item.rows):
                each = [quotient(side[index], side[0]) if against_first else None for side in (theirs, own)]
                ratio = quotient(own[index], theirs[index]) if self.carries_over(row, figure) else None
                rows.append([self.name(row), self.heading(figure), theirs[index], own[index], *each, ratio])
        shown = [
            index
            for index, column in enumerate(columns)
            if index == 0
            or column.name in (PUBLISHED, OURS)
            or (len(figures) > 1 if column.name == "figure" else any(row[index] is not None for row in rows))
        ]
        notes = [
            *self.deviations(rows),
            *self.projected(figures),
            *(self.notes if figures[0] == next(iter(self.item.figures)) else self.notes[-1:]),
        ]
        return Table(
            title, [columns[index] for index in shown], [[row[index] for index in shown] for row in rows], notes
        )

    def deviations(self, rows: Sequence[Sequence[Value]]) -> list[str]:
        """What ± means, if our figures have it."""
        if not any(isinstance(value, Spread) for row in rows for value in row):
            return []
        repeats = max(len(case.runs) for case in self.ours.values())
        if repeats > 1:
            return [f"±: standard deviation over {repeats} runs with different seeds."]
        return ["±: of one run each, the standard error of the mean of its steps; another run may differ by more."]

    def projected(self, figures: Sequence[str]) -> list[str]:
        """A note if our epochs were not whole ones."""
        made = [case for row in self.item.rows if (case := self.ours.get(row.place.run)) and case.completed]
        cut = any(is_projected(case.figures) for case in made)
        return ["Our epochs are projected at the pace of the steps made."] if cut and "epoch" in figures else []

    @property
    def one_place(self) -> bool:
        """Whether all rows are of the same run, and differ in x."""
        return bool(self.item.over) and len({row.place for row in self.item.rows}) == 1

    @property
    def several_curves(self) -> bool:
        """Whether there are several runs, or ranks of one, with several x each."""
        return 1 < len({row.place for row in self.item.rows}) < len(self.item.rows)

    def name(self, row: PublishedRow) -> Value:
        if self.one_place:
            return row.x
        return f"{row.name}, {self.item.over} {row.x:g}" if self.several_curves else row.name

    def carries_over(self, row: PublishedRow, figure: str) -> bool:
        """Whether the ratio of ours to theirs means something."""
        told, case = find_figure(figure), self.ours.get(row.place.run)
        return told.compared == "absolute" and not (told.learnt and case and not_learnt(case))

    def chart(self, figure: str) -> list[Chart]:
        """A line over x if there is one, else a bar per row; no chart for a single point."""
        relative = find_figure(figure).compared == "relative"
        marks = list(self.marks(figure, relative))
        if len({mark.get("x", mark["run"]) for mark in marks}) < 2:
            return []
        text, unit = find_figure(figure).full_title, self.item.figures[figure]
        y = Axis("value", text, unit, zero=not self.item.over)
        if relative:
            y = Axis("value", f"{text} against the first", "×")
        title = f"{self.item.name}: {y.title}"
        if self.item.over:
            wide = is_wide([row.x for row in self.item.rows if row.x is not None])
            x = Axis("x", self.item.over, log=wide, zero=False)
            return [Chart(title, "lines", marks, x, y, "series", notes=self.notes[-1:])]
        return [Chart(title, "bars", marks, Axis("run", "run"), y, "series", notes=self.notes[-1:])]

    def marks(self, figure: str, relative: bool) -> Iterator[dict[str, Any]]:
        for side, values in self.values(figure).items():
            base: Value = values[0] if relative else 1.0
            for row, value in zip(self.item.rows, values, strict=True):
                if (height := quotient(value, base)) is not None:
                    group = row.series or (row.name if self.several_curves else "")
                    series = f"{group}, {side}" if group else side
                    mark = {"run": row.name, "value": height, "series": series}
                    yield mark | ({"x": row.x} if self.item.over else {})

    def over_time(self) -> list[Chart]:
        if not self.item.over_time:
            return []
        places = [row.place for row in self.item.rows]
        named = [(place.run, case.run) for place in places if (case := self.ours.get(place.run)) and case.run.summary]
        title = f"{self.item.name}: network over time"
        ranks = sorted({place.rank or 0 for place in places})
        return network(list(dict(named).items()), ranks, title, self.notes[-1:])
