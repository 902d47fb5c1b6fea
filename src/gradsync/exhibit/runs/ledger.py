"""Where the time of a step went: the ledger of each run, or of each rank of one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradsync.exhibit.columns import cell_so_far, column
from gradsync.exhibit.form import Axis, Chart, Column, Exhibit, Mark, Section, Table
from gradsync.exhibit.runs.subjects import Subject
from gradsync.exhibit.runs.table import window_text
from gradsync.figures.catalogue.of_time import (
    COMMUNICATION_STEP,
    COMPUTE_STEP,
    HIDDEN_STEP,
    PART_STEP,
    REST_STEP,
)
from gradsync.figures.value import Value, mean_of

MOST_TIMED = 24  # runs in one chart of bars

MEANING = f"{'; '.join(figure.note for figure in (PART_STEP['wait'], PART_STEP['wire'], HIDDEN_STEP))}."


def time_section(subjects: Sequence[Subject]) -> list[Section]:
    """A single run is shown rank by rank."""
    measured = [item for item in subjects if item.measured]
    if not measured:
        return []
    if len(subjects) == 1 and len(measured[0].figures.ranks) > 1:
        return [Section("Where the time of a step went", of_ranks(measured[0]))]
    drawn = measured[:MOST_TIMED]
    exhibits: list[Exhibit] = [parts_chart(drawn), parts_table(measured), *balance(drawn)]
    told = [f"The first {MOST_TIMED} of {len(measured)} runs are drawn."] if len(measured) > MOST_TIMED else []
    return [Section("Where the time of a step went", exhibits, told)]


def parts_chart(measured: Sequence[Subject]) -> Chart:
    """The ledger stacked up to the time of a step."""
    rows = [mark for item in measured for mark in stacked(item.name, item)]
    x, y = Axis("run", "run"), Axis("ms", "time of a step", "ms")
    return Chart("Time of a step, and where it went", "stack", rows, x, y, "part", notes=[means(measured)])


def parts_table(measured: Sequence[Subject]) -> Table:
    rows = [[item.name, *parts_of(item)] for item in measured]
    return Table("The ledger of a step", columns("run"), rows, [f"{means(measured)} {MEANING}"])


def stacked(name: str, item: Subject, rank: int | None = None) -> Iterator[Mark]:
    for part, figure in PART_STEP.items():
        yield {"run": name, "part": part, "ms": mean_of(cell_so_far(item.case, figure, rank))}


def columns(first: str) -> list[Column]:
    return [Column(first), *map(column, PART_STEP.values()), Column("= step", "ms"), column(HIDDEN_STEP)]


def parts_of(item: Subject, rank: int | None = None) -> list[Value]:
    """The ledger of a run, or of one of its ranks: the parts, their sum, and what is hidden behind them."""
    each = [cell_so_far(item.case, figure, rank) for figure in PART_STEP.values()]
    whole = sum(mean_of(value) or 0.0 for value in each)
    return [*each, whole, cell_so_far(item.case, HIDDEN_STEP, rank)]


def means(measured: Sequence[Subject]) -> str:
    windows = dict.fromkeys(window_text(item.figures) for item in measured)
    return f"Mean of {' or '.join(windows)} and of all ranks."


def balance(measured: Sequence[Subject]) -> list[Chart]:
    """Computation against communication, for runs that communicate."""
    shared = [item for item in measured if len(item.figures.ranks) > 1]
    rows: list[Mark] = [
        {"run": item.name, "part": part, "ms": mean_of(cell_so_far(item.case, figure))}
        for item in shared
        for part, figure in BALANCE.items()
    ]
    if not rows:
        return []
    notes = ["Hidden communication overlaps computation and adds no time to the step."]
    x, y = Axis("run", "run"), Axis("ms", "time in a step", "ms")
    return [Chart("Computation against communication", "bars", rows, x, y, "part", notes=notes)]


BALANCE = {
    "compute": COMPUTE_STEP,
    "communication": COMMUNICATION_STEP,
    "other": REST_STEP,
    "hidden communication": HIDDEN_STEP,
}


def of_ranks(item: Subject) -> list[Exhibit]:
    """The ranks of one run."""
    named = {f"rank {rank.rank}": rank.rank for rank in item.figures.ranks}
    rows = [mark for name, rank in named.items() for mark in stacked(name, item, rank)]
    cells: list[list[Value]] = [[name, *parts_of(item, rank)] for name, rank in named.items()]
    note = f"Mean of {window_text(item.figures)}."
    x, y = Axis("run", "rank"), Axis("ms", "time of a step", "ms")
    return [
        Chart(f"{item.name}: time of a step, rank by rank", "stack", rows, x, y, "part", notes=[note]),
        Table(f"{item.name}: the ledger of a step, rank by rank", columns("rank"), cells, [f"{note} {MEANING}"]),
    ]
