"""Parameter servers that wait for all workers, against servers that do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradsync.config import WITH_SERVERS, RunConfig
from gradsync.errors import InputError
from gradsync.exhibit import Axis, Chart, Column, Exhibit, Section, Table, Value, mean_of
from gradsync.record import Run
from gradsync.study.cases import (
    Case,
    accuracy,
    cases,
    cpu_percent,
    network_bytes,
    peak_memory,
    remarks,
    total,
    train_seconds,
    with_remark,
)
from gradsync.study.settings import Study
from gradsync.values import counted

WORKERS = (1, 2, 3)
BATCHES = (50, 100)


@dataclass(kw_only=True)
class SyncAsync(Study):
    """Synchronous and asynchronous servers by workers and batch sizes: accuracy, time, CPU, memory, network."""

    model: str = "logistic"
    """vgg11, resnet18, alexnet, mnist-cnn, logistic, or your own as package.module:function or file.py:function."""

    strategies: tuple[str, ...] = WITH_SERVERS
    """ps-sync, ps-async."""

    batch_sizes: tuple[int, ...] = BATCHES
    """Samples per step and worker, for instance 10,50,100,200,500."""

    name: ClassVar[str] = "sync-async"
    title: ClassVar[str] = "Parameter servers: waiting for all, or not"
    own_processes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            raise InputError("--batch-sizes: name at least one, each 1 or more.")
        if wrong := [name for name in self.strategies if name not in WITH_SERVERS]:
            raise InputError(f"{', '.join(wrong)}: this study is about {' and '.join(WITH_SERVERS)}.")

    def plan(self) -> list[RunConfig]:
        return [
            self.run(strategy, workers, batch_per_worker=size)
            for strategy in self.strategies
            for workers in self.workers or WORKERS
            for size in self.batch_sizes
        ]

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        if not found:
            return []
        exhibits: list[Exhibit] = [table(found), finish_table(found), *charts(found)]
        return [Section("Waiting for all, or not", exhibits, list(sentences(found)))]


def share_of(case: Case) -> int:
    return case.figures["batch_size"] // case.figures["world_size"]


def traffic(figures: dict[str, Any], name: str) -> float | None:
    """Of all workers, in MB."""
    found = total(network_bytes(rank, name) for rank in figures["ranks"])
    return None if found is None else found / 1e6


def table(found: Sequence[Case]) -> Table:
    columns = [
        Column("strategy"),
        Column("workers"),
        Column("batch per worker"),
        Column("updates"),
        Column("staleness", "", ".2f"),
        Column("accuracy", "", ".2%"),
        Column("time", "s"),
        Column("CPU", "%", ".0f"),
        Column("peak memory", "MB", ",.0f"),
        Column("sent", "MB"),
        Column("received", "MB"),
        *remarks(found),
    ]
    rows = []
    for case in found:
        row: list[Value] = [
            case.figures["strategy"],
            case.figures["world_size"],
            share_of(case),
            case.figures["updates"],
            case.of(lambda figures: (figures["staleness"] or {}).get("mean")),
            case.of(accuracy),
            case.of(train_seconds),
            case.of(cpu_percent),
            case.of(lambda figures: (peak_memory(figures) or 0.0) / 1e6 or None),
            case.of(lambda figures: traffic(figures, "sent_bytes")),
            case.of(lambda figures: traffic(figures, "received_bytes")),
        ]
        rows.append(with_remark(case, columns, row))
    notes = [
        "time: from the first step of any worker to the last step of all; CPU: of all workers, 100 % is one core; "
        "memory: of the worker that needed most; sent, received: by all workers, as the kernel counted.",
        "staleness: updates made between a worker's reading of the parameters and the use of its gradient.",
    ]
    return Table("Synchronous and asynchronous parameter servers", columns, rows, notes)


def finish_table(found: Sequence[Case]) -> Table:
    columns = [
        Column("strategy"),
        Column("workers"),
        Column("batch per worker"),
        Column("worker"),
        Column("finished", "s"),
    ]
    rows = [
        [case.figures["strategy"], case.figures["world_size"], share_of(case), rank["rank"], rank["finish_seconds"]]
        for case in found
        for rank in case.figures["ranks"]
    ]
    notes = ["finished: last step, from the first step of any worker on."]
    return Table("When each worker finished", columns, rows, notes)


def charts(found: Sequence[Case]) -> Iterator[Chart]:
    done = [case for case in found if case.completed]
    most = max((case.figures["world_size"] for case in done), default=0)
    rows: list[dict[str, str | int | float | None]] = [
        {
            "strategy": case.figures["strategy"],
            "workers": case.figures["world_size"],
            "panel": counted(case.figures["world_size"], "worker"),
            "batch": share_of(case),
            "accuracy": None if (value := mean_of(case.of(accuracy))) is None else value * 100,
            "seconds": mean_of(case.of(train_seconds)),
        }
        for case in done
    ]
    x = Axis("batch", "batch per worker", log=True)
    if len({row["batch"] for row in rows}) > 1:
        tested = [row for row in rows if row["accuracy"] is not None]
        y = Axis("accuracy", "accuracy", "%", zero=False)
        if tested:
            yield Chart("Accuracy by batch size", "lines", tested, x, y, "strategy", "panel")
        yield Chart("Time by batch size", "lines", rows, x, Axis("seconds", "time", "s"), "strategy", "panel")
    finishes: list[dict[str, str | int | float | None]] = [
        {
            "worker": f"worker {rank['rank']}",
            "seconds": rank["finish_seconds"],
            "strategy": case.figures["strategy"],
            "panel": f"batch {share_of(case)}",
        }
        for case in done
        if case.figures["world_size"] == most > 1
        for rank in case.figures["ranks"]
    ]
    if finishes:
        title = f"When each of {most} workers finished"
        yield Chart(
            title, "bars", finishes, Axis("worker", "worker"), Axis("seconds", "finished", "s"), "strategy", "panel"
        )


def sentences(found: Sequence[Case]) -> Iterator[str]:
    by_key = {(case.figures["strategy"], case.figures["world_size"], share_of(case)): case for case in found}
    for (strategy, workers, share), sync in by_key.items():
        other = by_key.get(("ps-async", workers, share))
        if strategy != "ps-sync" or workers == 1 or other is None or not (sync.completed and other.completed):
            continue
        slow, fast = mean_of(sync.of(train_seconds)), mean_of(other.of(train_seconds))
        ours, theirs = mean_of(sync.of(accuracy)), mean_of(other.of(accuracy))
        text = f"{counted(workers, 'worker').capitalize()}, batches of {share}: "
        told = []
        if slow and fast:
            told.append(f"takes {fast / slow:.2f} of the time of synchronous")
        if ours is not None and theirs is not None:
            told.append(f"reaches {theirs:.1%} against {ours:.1%}")
        if told:
            yield f"{text}asynchronous {' and '.join(told)}."
