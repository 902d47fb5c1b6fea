"""One table or figure of a report, published and ours beside each other.

Times, rates, CPU and memory are those of two different machines: each side is shown against its own first row, and
that is what can be compared. Bytes, losses, accuracies and speed-ups are compared as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.exhibit import OURS, PRECISE, PUBLISHED, Axis, Chart, Column, Table, Value
from gradsync.exhibit import Exhibit as Shown
from gradsync.record import Run
from gradsync.study.cases import is_projected
from gradsync.study.over_time import network
from gradsync.study.published import Exhibit, Row
from gradsync.study.quantities import QUANTITIES, UNITS, At, not_learnt

FEW = 8  # figures that go into one table


def value_of(
    figure: str, run: Run, rank: int | None = None, x: float | None = None, against: Run | None = None
) -> float | None:
    """In seconds, bytes or shares; None where the run does not tell."""
    if run.status != "completed" or not run.summary or (rank or 0) >= len(run.summary["ranks"]):
        return None
    return QUANTITIES[figure].of(At(run, rank, x, against))


def quotient(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


@dataclass(frozen=True)
class Comparison:
    item: Exhibit
    ours: dict[str, Run]
    notes: Sequence[str]

    def exhibits(self) -> list[Shown]:
        """Each figure with its table and chart, or where there is little to show, one table for all."""
        figures = list(self.item.figures)
        title = f"{self.item.name}: {self.item.title}"
        if len(figures) * len(self.item.rows) <= FEW:
            return [
                self.table(title, figures),
                *(chart for name in figures for chart in self.chart(name)),
                *self.over_time(),
            ]
        found: list[Shown] = []
        for name in figures:
            found += [self.table(f"{self.item.name}: {self.heading(name)}", [name]), *self.chart(name)]
        return found + self.over_time()

    def our_value(self, row: Row, figure: str) -> float | None:
        """In the unit of the exhibit."""
        run = self.ours.get(row.place.run)
        found = value_of(figure, run, row.place.rank, row.x, self.ours.get(row.against)) if run else None
        return None if found is None else found * UNITS[self.item.figures[figure]]

    def values(self, figure: str) -> dict[str, list[float | None]]:
        rows = self.item.rows
        return {
            PUBLISHED: [row.values.get(figure) for row in rows],
            OURS: [self.our_value(row, figure) for row in rows],
        }

    def heading(self, figure: str) -> str:
        unit = self.item.figures[figure]
        return f"{QUANTITIES[figure].text} ({unit})" if unit else QUANTITIES[figure].text

    def table(self, title: str, figures: Sequence[str]) -> Table:
        columns = [
            Column(self.item.over if self.one_place else "run", form="g"),
            Column("figure"),
            Column(PUBLISHED, form=PRECISE),
            Column(OURS, form=PRECISE),
            Column(f"{PUBLISHED}, against the first", "×", ".2f"),
            Column(f"{OURS}, against the first", "×", ".2f"),
            Column("ours over published", "", ".2f"),
        ]
        rows: list[list[Value]] = []
        for figure in figures:
            relative = QUANTITIES[figure].compared == "relative"
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
            *self.projected(figures),
            *(self.notes if figures[0] == next(iter(self.item.figures)) else self.notes[-1:]),
        ]
        return Table(
            title, [columns[index] for index in shown], [[row[index] for index in shown] for row in rows], notes
        )

    def projected(self, figures: Sequence[str]) -> list[str]:
        """Said where our epochs were not whole ones."""
        runs = [run for row in self.item.rows if (run := self.ours.get(row.place.run)) and run.status == "completed"]
        cut = any(is_projected(run.summary) for run in runs if run.summary)
        return (
            ["Our epochs: as many steps as one has, at the pace of those made."] if cut and "epoch" in figures else []
        )

    @property
    def one_place(self) -> bool:
        """Whether all rows are of the same run, and differ in x."""
        return bool(self.item.over) and len({row.place for row in self.item.rows}) == 1

    @property
    def several_curves(self) -> bool:
        """Whether there are several runs, or ranks of one, with several x each."""
        return 1 < len({row.place for row in self.item.rows}) < len(self.item.rows)

    def name(self, row: Row) -> Value:
        if self.one_place:
            return row.x
        return f"{row.name}, {self.item.over} {row.x:g}" if self.several_curves else row.name

    def carries_over(self, row: Row, figure: str) -> bool:
        """Whether ours over theirs means something."""
        quantity, run = QUANTITIES[figure], self.ours.get(row.place.run)
        return quantity.compared == "absolute" and not (quantity.learnt and run and not_learnt(run))

    def chart(self, figure: str) -> list[Chart]:
        """Over x where there is one, else a bar per row; none for a single point."""
        relative = QUANTITIES[figure].compared == "relative"
        marks = list(self.marks(figure, relative))
        if len({mark.get("x", mark["run"]) for mark in marks}) < 2:
            return []
        text, unit = QUANTITIES[figure].text, self.item.figures[figure]
        y = Axis("value", text, unit, zero=not self.item.over)
        if relative:
            y = Axis("value", f"{text} against the first", "×")
        title = f"{self.item.name}: {y.title}"
        if self.item.over:
            x = Axis("x", self.item.over, log=self.is_wide(), zero=False)
            return [Chart(title, "lines", marks, x, y, "series", notes=self.notes[-1:])]
        return [Chart(title, "bars", marks, Axis("run", "run"), y, "series", notes=self.notes[-1:])]

    def marks(self, figure: str, relative: bool) -> Iterator[dict[str, Any]]:
        for side, values in self.values(figure).items():
            base = values[0] if relative else 1.0
            for row, value in zip(self.item.rows, values, strict=True):
                if (height := quotient(value, base)) is not None:
                    group = row.series or (row.name if self.several_curves else "")
                    series = f"{group}, {side}" if group else side
                    mark = {"run": row.name, "value": height, "series": series}
                    yield mark | ({"x": row.x} if self.item.over else {})

    def is_wide(self) -> bool:
        values = [row.x for row in self.item.rows if row.x is not None]
        return min(values, default=0) > 0 and max(values) / min(values) >= 10

    def over_time(self) -> list[Chart]:
        if not self.item.over_time:
            return []
        places = [row.place for row in self.item.rows]
        named = [(place.run, run) for place in places if (run := self.ours.get(place.run)) and run.summary]
        title = f"{self.item.name}: network over time"
        ranks = sorted({place.rank or 0 for place in places})
        return network(list(dict(named).items()), ranks, title, self.notes[-1:])
