"""Follows one run for one tracker, in a process of its own: python -m gradsync.live.trackers FOLDER NAME.

Whatever a tracker does, hang, crash, or keep a processor busy, the training is in other processes. The end of the
run is a line on stdin, or the end of stdin if the process that started the run is gone.
"""

from __future__ import annotations

import os
import re
import select
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from gradsync.config.window import parse_window
from gradsync.errors import plainly
from gradsync.ledger.summary import summarize
from gradsync.live.follow import Follower
from gradsync.live.trackers import maker
from gradsync.live.trackers.base import Status, Tracker
from gradsync.live.trackers.readings import Readings
from gradsync.record import Run, is_run, rank_files, read_run, records_until_damage

POLL_SECONDS = 1.0
NOT_IN_A_NAME = r"[^\w-]+"
LONGEST_SENTENCE = 500


def main(folder: Path, name: str) -> None:
    told = os.fdopen(os.dup(2), "w")
    into_log(folder, name)
    try:
        follow(folder, name)
    except (Exception, SystemExit) as error:
        sentence = " ".join(plainly(error).split())[:LONGEST_SENTENCE]
        print(f"gradsync: {name} gets no more of this run: {sentence or type(error).__name__}", file=told, flush=True)
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)  # whatever threads and handlers it leaves behind


def into_log(folder: Path, name: str) -> None:
    """What the tracker prints goes into the run folder, not between the lines of the training."""
    with suppress(OSError):  # without a log, it is printed
        (folder / "logs").mkdir(exist_ok=True)
        path = folder / "logs" / f"{re.sub(NOT_IN_A_NAME, '-', Path(name).name)}.log"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)


def follow(folder: Path, name: str) -> None:
    make = maker(name)
    followers: dict[int, Follower] = {}
    readings = Readings()
    tracker: Tracker | None = None
    while True:
        last = is_over(POLL_SECONDS)
        for rank, path in rank_files(folder).items():
            for row in followers.setdefault(rank, Follower(path)).new_rows():
                readings.add(rank, row)
        if last:
            readings.close()
        if tracker is None and is_run(folder) and (readings.points or last):
            tracker = make(folder, run_in(folder).resolved.to_dict())
        if tracker:
            points, events = readings.take()
            if points:
                tracker.log(points)
            for step, text in events:
                tracker.event(step, text)
        if last:
            break
    if tracker:
        tracker.end(*end_of(run_in(folder)))


def is_over(seconds: float) -> bool:
    """Wait for so long at most."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def run_in(folder: Path) -> Run:
    run = read_run(folder)
    assert isinstance(run, Run), "a collective benchmark has no trackers"
    return run


def end_of(run: Run) -> tuple[Status, dict[str, Any]]:
    """How it ended, and its summary. In a study, the processes may be busy with the next run before it is written."""
    if run.summary:
        status: Status = "killed" if run.stopped_by else "completed" if run.status == "completed" else "failed"
        return status, run.summary.to_dict()
    config = run.resolved
    ranks, _ = records_until_damage(run.folder, config.processes, parse_window(config.window).last)
    if all(record.end for record in ranks):
        return "completed", {**summarize(config, ranks, None, 0.0).to_dict(), "total_seconds": None}
    return "failed" if any(record.error for record in ranks) else "killed", {}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
