"""The collective benchmark: times, their spread, bus bandwidths and fits, for each transport."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from gradsync.config.values import counted
from gradsync.exhibit.form import Axis, Chart, Column, Exhibit, Mark, Section, Table
from gradsync.exhibit.remarks import crowded, host_limits
from gradsync.figures.bandwidth import fits, repeated
from gradsync.figures.fit_scaling import POOR
from gradsync.figures.place import busy_threads, cores_wanted, kind_of_device
from gradsync.figures.value import Spread, Value, written
from gradsync.record import ProbeRun, records_until_damage
from gradsync.record.summaries import ProbeFit, ProbePoint
from gradsync.text import size_text

MEANING = (
    "time: that of the slowest rank, from the barrier before a call until the call is done, mean over iterations; "
    "±: standard deviation over repeats if there are any, else over iterations."
)
BANDWIDTH = (
    "bus bandwidth: S / time × the fraction of S that crosses each link, as nccl-tests defines it; "
    "S: message size in bytes."
)
FIT = (
    "time = α + S × factor / β. α: latency of a call, whatever its size; β: bandwidth of a link; "
    "error: relative error of the fitted time, root mean square over the sizes, and the largest."
)


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
        grid("Time of a collective", "ms", points, lambda point: spread(point, 1e3), MEANING),
        grid("Bus bandwidth", "MB/s", points, lambda point: point.bus_bandwidth / 1e6, BANDWIDTH),
        *([fits_table(fitted)] if fitted else []),
        chart(points),
    ]
    summary = next(run.summary for run in runs if run.summary and transport in run.summary.transports)
    where = f"{counted(summary.world_size, 'worker')} on {counted(summary.nodes, 'node')}"
    off = [
        f"The fit of {', '.join(poor)} over {transport} is off by more than {POOR:.0%} at some size: do not predict "
        "times from its α and β."
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


def spread(point: ProbePoint, factor: float) -> Value:
    if point.spread_seconds is None:
        return point.seconds * factor
    return Spread(point.seconds * factor, point.spread_seconds * factor)


def grid(
    title: str, unit: str, points: Sequence[ProbePoint], value: Callable[[ProbePoint], Value], note: str
) -> Table:
    """Sizes down, operations across."""
    operations = list(dict.fromkeys(point.operation for point in points))
    cells = {(point.size, point.operation): value(point) for point in points}
    rows: list[list[Value]] = [
        [size_text(size), *(cells.get((size, operation)) for operation in operations)]
        for size in dict.fromkeys(size for size, _ in cells)
    ]
    columns = [Column("S"), *(Column(operation, unit) for operation in operations)]
    return Table(f"{points[0].transport}: {title.lower()}", columns, rows, [note])


def points_table(runs: Sequence[ProbeRun]) -> Table:
    """Every point of every run, which the tables above are made of."""
    columns = [
        Column("transport"),
        Column("operation"),
        Column("workers"),
        Column("requested size", "bytes"),
        Column("S", "bytes"),
        Column("iterations"),
        Column("time", "ms"),
        Column("median time", "ms"),
        Column("factor", "", ".2f"),
        Column("algorithm bandwidth", "MB/s"),
        Column("bus bandwidth", "MB/s"),
    ]
    rows: list[list[Value]] = [
        [
            *(point.transport, point.operation, point.workers, point.size, point.bytes, point.iterations),
            *(spread(point, 1e3), point.median_seconds * 1e3, point.factor),
            *(point.algorithm_bandwidth / 1e6, point.bus_bandwidth / 1e6),
        ]
        for run in runs
        if run.summary
        for point in run.summary.points
    ]
    return Table("Points", columns, rows)


def fits_table(fitted: Sequence[ProbeFit]) -> Table:
    columns = [
        Column("operation"),
        Column("factor", "", ".2f"),
        Column("α", "µs"),
        Column("β", "Gbit/s"),
        Column("β", "MB/s"),
        Column("error", "", ".0%"),
        Column("largest error", "", ".0%"),
    ]
    rows: list[list[Value]] = []
    for item in fitted:
        beta = item.beta_bytes_per_second
        rows.append(
            [
                item.operation,
                item.factor,
                item.alpha_seconds * 1e6,
                beta * 8 / 1e9 if beta else None,
                beta / 1e6 if beta else None,
                item.rms_error,
                item.largest_error,
            ]
        )
    return Table(f"{fitted[0].transport}: latency and bandwidth, fitted", columns, rows, [FIT])


def chart(points: Sequence[ProbePoint]) -> Chart:
    rows: list[Mark] = [
        {"bytes": point.bytes, "ms": point.seconds * 1e3, "operation": point.operation} for point in points
    ]
    x, y = Axis("bytes", "message", "bytes", log=True), Axis("ms", "time", "ms", log=True)
    return Chart(f"{points[0].transport}: time of a collective by its size", "lines", rows, x, y, "operation")


def sentences(fitted: Sequence[ProbeFit], poor: Collection[str]) -> Iterator[str]:
    for item in fitted:
        beta = item.beta_bytes_per_second
        if beta and item.operation not in poor:
            yield (
                f"{item.operation}: {written(item.alpha_seconds * 1e6)} µs and {written(beta * 8 / 1e9)} Gbit/s "
                f"(at most {item.largest_error:.0%} off)."
            )


def probe_line(run: ProbeRun) -> str:
    """The line of a benchmark in a list of runs: what it is, and how to show it."""
    if not run.summary:
        return f"{run.name}: a collective benchmark, {run.status}."
    who = f"{counted(run.summary.world_size, 'worker')} over {', '.join(run.summary.transports)}"
    return f"{run.name}: a collective benchmark of {who}, {run.status}: gradsync show {run.name}"
