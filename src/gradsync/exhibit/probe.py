"""The collective benchmark: times, their spread, bus bandwidths and fits, for each transport."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from gradsync.config.values import counted
from gradsync.exhibit.columns import axis, cell_of, column, height
from gradsync.exhibit.form import Axis, Chart, Column, Exhibit, Mark, Section, Table
from gradsync.exhibit.remarks import crowded, host_limits
from gradsync.figures.bandwidth import fits, repeated
from gradsync.figures.catalogue.of_probe import (
    ALGORITHM_BANDWIDTH,
    ALPHA,
    BETA,
    BETA_BYTES,
    BUS_BANDWIDTH,
    FACTOR,
    FIT_ERROR,
    LARGEST_FIT_ERROR,
    MEDIAN_TIME,
    TIME,
)
from gradsync.figures.figure import FigureOf
from gradsync.figures.fit_scaling import POOR
from gradsync.figures.place import busy_threads, cores_wanted, kind_of_device
from gradsync.figures.value import Value, percent
from gradsync.record import ProbeRun, records_until_damage
from gradsync.record.summaries import ProbeFit, ProbePoint
from gradsync.text import size_text

DEVIATION = "±: standard deviation over repeats if there are any, else over iterations"
FITTED: Sequence[FigureOf[ProbeFit]] = (FACTOR, ALPHA, BETA, BETA_BYTES, FIT_ERROR, LARGEST_FIT_ERROR)


def sections(runs: Sequence[ProbeRun]) -> list[Section]:
    """A section for each transport."""
    found = [run for run in runs if run.summary]
    points = repeated([point for run in found if run.summary for point in run.summary.points])
    return [section(name, each, found) for name, each in by_transport(points)]


def by_transport(points: Sequence[ProbePoint]) -> list[tuple[str, list[ProbePoint]]]:
    groups: dict[str, list[ProbePoint]] = {}
    for point in points:
        groups.setdefault(point.transport, []).append(point)
    return list(groups.items())


def section(transport: str, points: Sequence[ProbePoint], runs: Sequence[ProbeRun]) -> Section:
    fitted = fits(points)
    poor = [item.operation for item in fitted if item.largest_error > POOR]
    exhibits: list[Exhibit] = [
        grid(TIME, points, f"{TIME.note}; {DEVIATION}."),
        grid(BUS_BANDWIDTH, points, f"{BUS_BANDWIDTH.note}."),
        *([fits_table(fitted)] if fitted else []),
        chart(points),
    ]
    summary = next(run.summary for run in runs if run.summary and transport in run.summary.transports)
    where = f"{counted(summary.world_size, 'worker')} on {counted(summary.nodes, 'node')}"
    off = [
        f"The fit of {', '.join(poor)} over {transport} is off by more than {percent(POOR)} at some size: do not "
        "predict times from its α and β."
    ]
    doubted = off if poor else []
    return Section(f"{transport}, {where}", exhibits, [*doubted, *sentences(fitted, poor)], doubts=doubted)


def doubts(runs: Sequence[ProbeRun]) -> list[str]:
    """What limits all of their times: more threads than cores, and emulated nodes that lacked a core."""
    found = {"This benchmark": [run for run in runs if run.summary]}
    places = {place for run in found["This benchmark"] if (place := crowd(run))}
    return [*(crowded("This benchmark", *place) for place in sorted(places)), *host_limits(found)]


def crowd(run: ProbeRun) -> tuple[int, int] | None:
    """The compute threads of its workers on a host, and the cores of it, if these are fewer."""
    figures, ((first,), _) = run.summary, records_until_damage(run.folder, 1)
    start = first.start
    host = start.get("host") if start else None
    cores = host["cores"] if host else None
    if not figures or not cores or kind_of_device(figures.device) == "cuda":
        return None
    threads, wanted = busy_threads(figures), cores_wanted(figures)
    return (threads, cores) if threads and wanted and wanted > cores else None


def grid(figure: FigureOf[ProbePoint], points: Sequence[ProbePoint], note: str) -> Table:
    """Sizes down, operations across."""
    operations = list(dict.fromkeys(point.operation for point in points))
    cells = {(point.size, point.operation): cell_of(point, figure) for point in points}
    rows: list[list[Value]] = [
        [size_text(size), *(cells.get((size, operation)) for operation in operations)]
        for size in dict.fromkeys(size for size, _ in cells)
    ]
    columns = [Column("S"), *(replace(column(figure), name=operation) for operation in operations)]
    return Table(f"{points[0].transport}: {figure.full_title}", columns, rows, [note])


def points_table(runs: Sequence[ProbeRun]) -> Table:
    """Every point of every run, which the tables above are made of."""
    figures: Sequence[FigureOf[ProbePoint]] = (TIME, MEDIAN_TIME, FACTOR, ALGORITHM_BANDWIDTH, BUS_BANDWIDTH)
    columns = [
        Column("transport"),
        Column("operation"),
        Column("workers"),
        Column("requested size", "bytes"),
        Column("S", "bytes"),
        Column("iterations"),
        *map(column, figures),
    ]
    rows: list[list[Value]] = [
        [
            *(point.transport, point.operation, point.workers, point.size, point.bytes, point.iterations),
            *(cell_of(point, figure) for figure in figures),
        ]
        for run in runs
        if run.summary
        for point in run.summary.points
    ]
    return Table("Points", columns, rows)


def fits_table(fitted: Sequence[ProbeFit]) -> Table:
    columns = [Column("operation"), *map(column, FITTED)]
    rows = [[item.operation, *(cell_of(item, figure) for figure in FITTED)] for item in fitted]
    notes = ["; ".join(figure.note for figure in FITTED if figure is not BETA_BYTES) + "."]
    return Table(f"{fitted[0].transport}: latency and bandwidth, fitted", columns, rows, notes)


def chart(points: Sequence[ProbePoint]) -> Chart:
    rows: list[Mark] = [
        {"bytes": point.bytes, TIME.name: height(TIME.of(point), TIME), "operation": point.operation}
        for point in points
    ]
    x, y = Axis("bytes", "message", "bytes", log=True), axis(TIME, log=True)
    return Chart(f"{points[0].transport}: {TIME.full_title} by its size", "lines", rows, x, y, "operation")


def sentences(fitted: Sequence[ProbeFit], poor: Collection[str]) -> Iterator[str]:
    for item in fitted:
        if item.beta_bytes_per_second and item.operation not in poor:
            latency, bandwidth, error = (each.text(each.of(item)) for each in (ALPHA, BETA, LARGEST_FIT_ERROR))
            yield f"{item.operation}: {latency} {ALPHA.unit} and {bandwidth} {BETA.unit} (at most {error} off)."


def probe_line(run: ProbeRun) -> str:
    """The line of a benchmark in a list of runs: what it is, and how to show it."""
    if not run.summary:
        return f"{run.name}: a collective benchmark, {run.status}."
    who = f"{counted(run.summary.world_size, 'worker')} over {', '.join(run.summary.transports)}"
    return f"{run.name}: a collective benchmark of {who}, {run.status}: gradsync show {run.name}"
