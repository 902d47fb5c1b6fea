"""Event files for TensorBoard: a folder per rank."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from gradsync.live.trackers.base import Point, Settings, Status, figures_of, flat, remarks_of

FOLDER = "tensorboard"


class EventFiles:
    """Scalars of every rank; settings, events and the summary as texts of rank 0."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder / FOLDER
        self._settings = settings
        self._writers: dict[int, EventFileWriter] = {}
        self._events: list[str] = []
        self._step = 0
        self._write_text(0, "settings", table(flat(settings, ".")))

    def log(self, points: Sequence[Point]) -> None:
        for rank, step, values in points:
            self._step = max(self._step, step)
            found = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
            self._write(rank, step, Summary(value=found))

    def event(self, step: int, text: str) -> None:
        self._write_text(step, "events", text)

    def end(self, status: Status, summary: Mapping[str, Any]) -> None:
        results = {**remarks_of(status, summary), **figures_of(summary, self._settings)}
        self._write_text(self._step, "summary", table(results))
        for writer in self._writers.values():
            writer.close()

    def _write_text(self, step: int, tag: str, text: str) -> None:
        self._write(0, step, text_pb(tag, text))

    def _write(self, rank: int, step: int, summary: Summary) -> None:
        if rank not in self._writers:
            self._writers[rank] = EventFileWriter(str(self._folder / f"rank-{rank}"))
        self._writers[rank].add_event(Event(wall_time=time.time(), step=step, summary=summary))


def table(values: Mapping[str, Any]) -> str:
    """In Markdown, which TensorBoard renders."""
    rows = [f"| {name} | {value} |" for name, value in values.items()]
    return "\n".join(["| name | value |", "|---|---|", *rows])
