"""What the published reports hold, and about how long each takes on this machine."""

from __future__ import annotations

import time
from pathlib import Path

import numpy

from gradsync.exhibit.form import Column, Table
from gradsync.figures.value import Value
from gradsync.record import UnreadableRecord
from gradsync.record.walk import is_study
from gradsync.study.making.carry_out import read_study, runs_of
from gradsync.study.reproduce import published
from gradsync.study.reproduce.reports import REPORTS

SIZE = 512
REFERENCE = 0.0019  # seconds for one product of that size on the machine where REPORTS' minutes were measured
SCALES = ("full", "short", "smoke")


def pace() -> float:
    """How much longer this machine takes than the one the minutes were measured on, by the best of some products."""
    matrix = numpy.random.default_rng(0).random((SIZE, SIZE), dtype=numpy.float32)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        matrix @ matrix
        times.append(time.perf_counter() - begin)
    return min(times) / REFERENCE


def listing(out: Path) -> Table:
    factor = pace()
    columns = [
        Column("report"),
        Column("tables and figures"),
        Column("claims"),
        *(Column(scale, "min") for scale in SCALES),
        Column("made here"),
    ]
    rows: list[list[Value]] = []
    for name in published.NAMES:
        item = published.read(name)
        minutes = [f"{max(1, REPORTS[name].minutes[scale] * factor):.0f}" for scale in SCALES]
        made = [scale for scale in SCALES if is_made(out / f"{name}-{scale}")]
        rows.append([name, ", ".join(item.names), len(item.claims), *minutes, ", ".join(made)])
    notes = [
        "min: estimated for this machine, with emulated nodes. gradsync reproduce NAME, or --all; --only chooses "
        "tables and figures. short and smoke make fewer steps, and every figure says so."
    ]
    return Table("Published reports that can be repeated", columns, rows, notes)


def is_made(folder: Path) -> bool:
    """Whether the folder holds a complete reproduction."""
    if not is_study(folder):
        return False
    try:
        record, runs = read_study(folder), runs_of(folder)
    except UnreadableRecord:
        return False
    whole = not record["settings"].get("only") and not record["settings"].get("steps")
    return (
        whole
        and len(runs) == len(record["plan"])
        and all(run.status == "completed" or run.out_of_memory for run in runs)
    )
