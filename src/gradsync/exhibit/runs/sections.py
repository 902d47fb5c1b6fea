"""Runs, as every command shows them: the result first, what it shows, where the time went, then the details."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradsync.exhibit import certificate
from gradsync.exhibit.findings import findings, limits
from gradsync.exhibit.form import Section
from gradsync.exhibit.remarks import not_completed
from gradsync.exhibit.runs.curves import curve_sections
from gradsync.exhibit.runs.ledger import time_section
from gradsync.exhibit.runs.network import network
from gradsync.exhibit.runs.one_step import one_step
from gradsync.exhibit.runs.subjects import Subject, named, of_first
from gradsync.exhibit.runs.table import runs_table
from gradsync.exhibit.runs.traffic import traffic_sections
from gradsync.exhibit.runs.workers import worker_sections
from gradsync.figures.cases import cases, one_by_one
from gradsync.record import Run
from gradsync.record.certificate import read_certificate

MOST_STEPS_DRAWN = 6  # runs of which one step and the network are drawn


def sections(
    runs: Sequence[Run], columns: Sequence[str] = (), repeats: bool = True, pictures: bool = True
) -> list[Section]:
    """``columns``: of the first table. ``repeats``: whether runs that differ only in their seed are one case.

    ``pictures``: whether to include charts drawn from the rows of the ranks, which a terminal does not show.
    """
    if not runs:
        return []
    subjects = named(cases(runs) if repeats else one_by_one(runs))
    return [
        Section("Runs", [runs_table(subjects, columns)], findings(subjects), doubts=limits(subjects)),
        *time_section(subjects),
        *worker_sections(subjects),
        *certified(runs),
        *traffic_sections(subjects),
        *(curve_sections(subjects) if pictures else ()),
        *(step_sections(subjects) if pictures else ()),
        *not_completed([run for item in subjects for run in item.case.runs]),
    ]


def step_sections(subjects: Sequence[Subject]) -> Iterator[Section]:
    shared = [item for item in subjects if len(item.figures.ranks) > 1 and item.measured]
    drawn = shared[:MOST_STEPS_DRAWN]
    first = [f"The first {len(drawn)} of {len(shared)} runs are drawn."] if len(shared) > len(drawn) else []
    if steps := [chart for item in drawn for chart in one_step(item)]:
        yield Section("One step, rank by rank", steps, first, detail=True)
    named_runs = [(item.name, item.run) for item in drawn if item.run.summary]
    if charts := network(named_runs, notes=of_first(drawn)):
        yield Section("Network", charts, first, detail=True)


def certified(runs: Sequence[Run]) -> list[Section]:
    return (
        [certificate.section(runs), *certificate.conformance(runs)]
        if any(read_certificate(run.folder) for run in runs)
        else []
    )
