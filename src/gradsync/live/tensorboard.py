"""Event files for TensorBoard, written beside the training from the rows of the record: a folder per rank."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from gradsync.meter.figures import rate
from gradsync.meter.ledger import ledgers
from gradsync.meter.timeline import Timeline
from gradsync.record import Row

FOLDER = "tensorboard"


class EventFiles:
    """A listener and a context: closing it flushes the files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._writers: dict[int, EventFileWriter] = {}
        self._timeline = Timeline()
        self._host: dict[int, Row] = {}
        self._step: dict[int, int] = {}

    def __enter__(self) -> EventFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            with suppress(OSError):  # a full disk costs the curves, not the run
                writer.close()

    def refresh(self) -> None:
        pass

    def show(self, rank: int, row: Row) -> None:
        if ranks := self._timeline.add(rank, row):
            for each, ledger in enumerate(ledgers(ranks)):
                self._write(each, row["step"], {f"ledger/{part}_ms": value * 1e3 for part, value in ledger.items()})
        if row["kind"] == "step":
            self._step[rank] = row["step"]
            self._write(rank, row["step"], step_scalars(row))
        elif row["kind"] == "test":
            self._write(rank, row["step"], test_scalars(row))
        elif row["kind"] == "host":
            before, self._host[rank] = self._host.get(rank), row
            self._write(rank, self._step.get(rank, 0), host_scalars(before, row))

    def _write(self, rank: int, step: int, scalars: dict[str, float | None]) -> None:
        if rank not in self._writers:
            self._writers[rank] = EventFileWriter(str(self._folder / f"rank-{rank}"))
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items() if value is not None]
        self._writers[rank].add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))


def step_scalars(row: Row) -> dict[str, Any]:
    return {
        "train/loss": row["loss"],
        "train/samples_per_second": row["samples"] / row["seconds"],
        "train/seconds_per_step": row["seconds"],
    }


def test_scalars(row: Row) -> dict[str, Any]:
    if not row["count"]:  # more ranks than test samples
        return {}
    loss = None if row["loss_sum"] is None else row["loss_sum"] / row["count"]
    return {"test/accuracy": row["correct"] / row["count"], "test/loss": loss}


def host_scalars(before: Row | None, row: Row) -> dict[str, Any]:
    scalars = {"host/memory_mb": row["memory_bytes"] / 1e6}
    if before is None:
        return scalars
    rates = {
        "host/cpu_percent": ("cpu_seconds", 100),
        "host/no_free_core_percent": ("run_delay_seconds", 100),
        "network/sent_mb_per_second": ("sent_bytes", 1e-6),
        "network/received_mb_per_second": ("received_bytes", 1e-6),
    }
    return scalars | {
        tag: growth * factor
        for tag, (name, factor) in rates.items()
        if (growth := rate(before, row, name)) is not None
    }
