"""The end of a recording: its summary, from what all ranks have written, and its tables. Rank 0 does this."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gradsync.errors import InputError
from gradsync.launch.finish import finish
from gradsync.library.exits import Stopped
from gradsync.record import Run, rank_records

PATIENCE_SECONDS = 10  # for the last words of the other ranks, once this one has ended
POLL_SECONDS = 0.05


def wait_for_ranks(folder: Path, count: int, seconds: float = PATIENCE_SECONDS) -> None:
    """Until every rank has recorded how it ended, or has had the time to."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if all(record.end or record.error for record in rank_records(folder, count, stamps_until=0)):
            return
        time.sleep(POLL_SECONDS)


def summarized(folder: Path, signal: str | None = None) -> Run:
    return finish(folder, anyway=True, signal=signal)


def print_tables(run: Run) -> None:
    """As ``gradsync show`` would print them."""
    from gradsync.draw.console import make_console, say
    from gradsync.draw.terminal import draw
    from gradsync.exhibit.remarks import failure
    from gradsync.exhibit.runs.sections import sections

    console = make_console(json=False)
    for section in sections([run], pictures=False):
        if not (section.detail or section.failures):
            draw(section, console)
    console.print(f"\n{run.name}", soft_wrap=True)
    sys.stdout.flush()
    if run.status != "completed":
        say(failure(run), sys.stderr)


def finish_recording(folder: Path, count: int, cause: BaseException | None, show: bool) -> None:
    """``cause``: what has ended this rank's script, if anything."""
    wait_for_ranks(folder, count)
    try:
        run = summarized(folder, str(cause) if isinstance(cause, Stopped) else None)
    except InputError as error:  # somebody else has finished it, or its rows are damaged
        print(f"gradsync: {error}", file=sys.stderr)
        return
    if show:
        print_tables(run)
