"""gradsync trace: write a run as a trace for Perfetto."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gradsync.cli.command.show import refuse_nothing
from gradsync.cli.commands import Trace
from gradsync.errors import InputError
from gradsync.record import CONFIG_FILE
from gradsync.text import printable

if TYPE_CHECKING:
    from gradsync.record import Run


def trace(command: Trace) -> int:
    from gradsync.ledger.trace import trace
    from gradsync.record import rank_files, rank_records, write_json
    from gradsync.record.writing import is_own_file
    from gradsync.study.making.found import found_in

    if command.until < 1:
        raise InputError(f"--until is {command.until}: it must be 1 or more.")
    found = found_in([command.run])
    refuse_nothing([command.run], found)
    if not found.runs:
        raise InputError(f"{printable(command.run)}: a collective benchmark has no steps to draw.")
    run = max(found.runs, key=begun)
    path = command.out or run.folder / "trace.json"
    ranks = rank_records(run.folder, max(rank_files(run.folder), default=-1) + 1, stamps_until=command.until)
    steps = [row for record in ranks for row in record.steps]
    if not any("phases" in row for row in steps):
        raise InputError(f"{run.name} has no stamps to draw: it was not measured, or ended before its first step.")
    try:
        write_json(path, trace(ranks, command.until), indent=None)
    except OSError as error:
        raise InputError(f"cannot write {printable(path)}: {error.strerror}.") from None
    last = max(row["step"] for row in steps)
    shown = f"steps 1 to {command.until} of {last} (--until)" if last > command.until else f"{last} steps"
    print(
        f"{printable(path)}: {shown}. Open it in ui.perfetto.dev or chrome://tracing.",
        file=sys.stdout if is_own_file(path) else sys.stderr,
    )
    return 0


def begun(run: Run) -> int:
    """When its settings were written, as the names of folders need not tell."""
    return (run.folder / CONFIG_FILE).stat().st_mtime_ns
