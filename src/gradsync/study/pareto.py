"""Which strategies nothing else beats: accuracy against bytes against seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradsync.config import RunConfig
from gradsync.exhibit import Axis, Chart, Column, Section, Table, Value, mean_of
from gradsync.record import Run
from gradsync.study.cases import Case, accuracy, cases, network_bytes, remarks, total, train_seconds, with_remark
from gradsync.study.settings import Study

WAYS = ("local", "gather-scatter", "reduce-broadcast", "all-reduce", "ring", "bucketed", "ddp", "ps-sync", "ps-async")

Point = tuple[float, float, float]
"""What is lost: 1 − accuracy, bytes, seconds."""


@dataclass(kw_only=True)
class Pareto(Study):
    """Strategies by accuracy, bytes and seconds: those that no other beats in all three."""

    strategies: tuple[str, ...] = WAYS
    """The strategies to weigh."""

    name: ClassVar[str] = "pareto"
    title: ClassVar[str] = "Strategies by accuracy, bytes and seconds"

    def plan(self) -> list[RunConfig]:
        numbers = self.workers or (2,)
        batch = self.batch_size or (self.batch_per_worker or 32) * max(numbers)
        return [
            self.run(strategy, workers, batch_size=batch)
            for strategy in self.strategies
            for workers in ((1,) if strategy == "local" else numbers)
        ]

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        if not found:
            return []
        best = frontier({index: point for index, case in enumerate(found) if (point := point_of(case))})
        names = ", ".join(name_of(found[index]) for index in sorted(best))
        said = [f"Not beaten in accuracy, bytes and seconds together: {names}."] if best else []
        return [Section("Accuracy, bytes, seconds", [table(found, best), *charts(found)], said)]


def frontier(points: dict[int, Point]) -> set[int]:
    """Those for which no other is at least as good in everything and better in something."""
    return {
        one
        for one, point in points.items()
        if not any(
            all(theirs <= own for theirs, own in zip(other, point, strict=True)) and other != point
            for other in points.values()
        )
    }


def name_of(case: Case) -> str:
    return f"{case.figures['strategy']} × {case.figures['world_size']}"


def sent(figures: dict[str, Any]) -> float | None:
    """MB for each worker, what servers send among them; a single worker sends nothing."""
    if figures["world_size"] == 1 and not figures["server_count"]:
        return 0.0
    found = total(network_bytes(rank, "sent_bytes") for rank in [*figures["ranks"], *figures["servers"]])
    return None if found is None else found / 1e6 / figures["world_size"]


def point_of(case: Case) -> Point | None:
    values = [mean_of(case.of(figure)) for figure in (accuracy, sent, train_seconds)]
    right, megabytes, seconds = values
    return None if right is None or megabytes is None or seconds is None else (1 - right, megabytes, seconds)


def table(found: Sequence[Case], best: set[int]) -> Table:
    columns = [
        Column("strategy"),
        Column("workers"),
        Column("accuracy", "", ".2%"),
        Column("sent for each worker", "MB"),
        Column("training", "s"),
        Column("not beaten"),
        *remarks(found),
    ]
    rows = []
    for index, case in enumerate(found):
        row: list[Value] = [case.figures["strategy"], case.figures["world_size"]]
        row += [case.of(figure) for figure in (accuracy, sent, train_seconds)]
        rows.append(with_remark(case, columns, [*row, "yes" if index in best else ""]))
    notes = [
        "sent: counted by the kernel, by workers and servers, over the workers; training: first step to last step, "
        "with testing between."
    ]
    return Table("Strategies by accuracy, bytes and seconds", columns, rows, notes)


def charts(found: Sequence[Case]) -> list[Chart]:
    rows: list[dict[str, str | int | float | None]] = [
        {"name": name_of(case), "accuracy": (1 - point[0]) * 100, "megabytes": point[1], "seconds": point[2]}
        for case in found
        if (point := point_of(case))
    ]
    if len(rows) < 2:
        return []
    y = Axis("accuracy", "accuracy", "%", zero=False)
    return [
        Chart("Accuracy against seconds", "points", rows, Axis("seconds", "training", "s"), y, "name"),
        Chart("Accuracy against bytes", "points", rows, Axis("megabytes", "sent for each worker", "MB"), y, "name"),
    ]
