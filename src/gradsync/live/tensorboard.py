"""Event files for TensorBoard, written during training from the rows of the record: a folder per rank."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from gradsync.ledger.parts import ledgers
from gradsync.ledger.rates import SHORTEST, rate, samples_per_second
from gradsync.ledger.summary.learned import combined
from gradsync.ledger.timeline import Timeline
from gradsync.record import Row
from gradsync.record.rows import HostRow, StepRow, TestRow

FOLDER = "tensorboard"


class EventFiles:
    """A listener and a context: closing it flushes the files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._writers: dict[int, EventFileWriter] = {}
        self._timeline = Timeline()
        self._host: dict[int, HostRow] = {}
        self._step: dict[int, StepRow] = {}
        self._shares: dict[int, list[TestRow]] = defaultdict(list)

    def __enter__(self) -> EventFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            with suppress(OSError):  # a full disk costs the curves, not the run
                writer.close()

    def refresh(self) -> None:
        pass

    def show(self, rank: int, row: Row) -> None:
        ranks = self._timeline.add(rank, row)
        if row["kind"] == "step":
            for each, ledger in enumerate(ledgers(ranks or [])):
                self._write(each, row["step"], {f"ledger/{part}_ms": value * 1e3 for part, value in ledger.items()})
            self._step[rank] = row
            self._write(rank, row["step"], step_scalars(row))
        elif row["kind"] == "test":
            self._write_test(rank, row)
        elif row["kind"] == "host":
            self._write_host(rank, row)

    def _write_test(self, rank: int, row: TestRow) -> None:
        """Always of the whole test set: ranks that share it show the same, once all shares have been tested."""
        if row["whole"]:
            self._write(rank, row["step"], test_scalars([row]))
            return
        shares = self._shares[row["epoch"]]
        shares.append(row)
        if len(shares) == self._timeline.ranks:
            for each in range(len(shares)):
                self._write(each, row["step"], test_scalars(shares))

    def _write_host(self, rank: int, row: HostRow) -> None:
        """Rates are averaged over a step at least, as a step computes and then sends."""
        step, before = self._step.get(rank), self._host.setdefault(rank, row)
        scalars: dict[str, float | None] = {"host/memory_mb": row["memory_bytes"] / 1e6}
        if row["time"] - before["time"] >= max(step["seconds"] if step else 0.0, SHORTEST):
            self._host[rank] = row
            scalars |= rate_scalars(before, row)
        self._write(rank, step["step"] if step else 0, scalars)

    def _write(self, rank: int, step: int, scalars: dict[str, float | None]) -> None:
        if rank not in self._writers:
            self._writers[rank] = EventFileWriter(str(self._folder / f"rank-{rank}"))
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items() if value is not None]
        self._writers[rank].add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))


def step_scalars(row: StepRow) -> dict[str, float | None]:
    return {
        "train/loss": row["loss"],
        "train/samples_per_second": samples_per_second([[row]]),
        "train/seconds_per_step": row["seconds"],
    }


def test_scalars(rows: Sequence[TestRow]) -> dict[str, float | None]:
    found = combined(rows)
    return {"test/accuracy": found.accuracy, "test/loss": found.loss} if found else {}


def rate_scalars(before: HostRow, row: HostRow) -> dict[str, float | None]:
    names = {
        "host/cpu_percent": ("cpu_seconds", 100),
        "host/not_scheduled_percent": ("run_delay_seconds", 100),
        "network/sent_mb_per_second": ("sent_bytes", 1e-6),
        "network/received_mb_per_second": ("received_bytes", 1e-6),
    }
    return {
        tag: growth * factor
        for tag, (name, factor) in names.items()
        if (growth := rate(before, row, name)) is not None
    }
