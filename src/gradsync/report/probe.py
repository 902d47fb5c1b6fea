"""The collective benchmark as tables of 80 columns, and as a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.table import Table

from gradsync.record import Run
from gradsync.report.tables import NOTHING, plain_table
from gradsync.values import counted

Figures = dict[str, Any]

MEANING = (
    "time: mean over the iterations of the slowest rank, from when all had met until its call was over. "
    "spread: standard deviation of that, in percent of it. "
    "bus bandwidth: S / time × what part of S passes each link (factor), as nccl-tests defines it."
)
FIT_MEANING = (
    "time = α + S × factor / β. α: what a call costs however small it is. β: what a link carries. "
    "error: of that time against the measured ones, root mean square over the sizes, and the largest."
)


def probe_tables(summary: Figures) -> Iterator[Table]:
    """For each transport its times, their spread, the bus bandwidth, and the fits."""
    for transport in dict.fromkeys(summary["transports"]):
        points = [item for item in summary["points"] if item["transport"] == transport]
        if not points:
            continue
        where = f"{transport}, {counted(summary['world_size'], 'worker')} on {counted(summary['nodes'], 'node')}"
        yield grid(f"{where}: time, ms", points, lambda item: milliseconds(item["seconds"]))
        yield grid("spread, % of the time", points, spread_text)
        yield grid("bus bandwidth, MB/s", points, lambda item: three_digits(item["bus_bandwidth"] / 1e6), MEANING)
        fitted = [item for item in summary["fits"] if item["transport"] == transport]
        if fitted:
            yield fits_table(fitted)


def grid(title: str, points: list[Figures], text: Callable[[Figures], str], caption: str | None = None) -> Table:
    """Sizes down, operations across."""
    operations = list(dict.fromkeys(item["operation"] for item in points))
    cells = {(item["size"], item["operation"]): text(item) for item in points}
    table = plain_table(title, caption)
    table.add_column("S", justify="right", no_wrap=True)
    for operation in operations:
        table.add_column(operation.replace("-", "-\n"), justify="right", no_wrap=True)
    for size in dict.fromkeys(size for size, _ in cells):
        table.add_row(size_text(size), *(cells.get((size, operation), NOTHING) for operation in operations))
    return table


def fits_table(fits: list[Figures]) -> Table:
    table = plain_table("fit", FIT_MEANING)
    table.add_column("operation", no_wrap=True)
    for heading in ("factor", "α, µs", "β, Gbit/s", "β, MB/s", "error, %", "largest, %"):
        table.add_column(heading, justify="right", no_wrap=True)
    for item in fits:
        beta = item["beta_bytes_per_second"]
        table.add_row(
            item["operation"],
            f"{item['factor']:.2f}",
            three_digits(item["alpha_seconds"] * 1e6),
            three_digits(beta * 8 / 1e9) if beta else NOTHING,
            three_digits(beta / 1e6) if beta else NOTHING,
            f"{100 * item['rms_error']:.0f}",
            f"{100 * item['largest_error']:.0f}",
        )
    return table


def probe_line(run: Run) -> str:
    """For a list of runs: that this one is no run, and how to see it."""
    if not run.summary:
        return f"{run.name}: a collective benchmark, {run.status}."
    who = f"{counted(run.summary['world_size'], 'worker')} over {', '.join(run.summary['transports'])}"
    return f"{run.name}: a collective benchmark of {who}, {run.status}: gradsync show {run.name}"


def size_text(count: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= factor:
            return f"{count / factor:g} {unit}"
    return f"{count} B"


def milliseconds(seconds: float) -> str:
    return three_digits(seconds * 1e3)


def spread_text(item: Figures) -> str:
    spread = item["spread_seconds"]
    return NOTHING if spread is None else f"{100 * spread / item['seconds']:.0f}"


def three_digits(value: float) -> str:
    """0.0123, 1.23, 12.3, 123, 1230."""
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"
