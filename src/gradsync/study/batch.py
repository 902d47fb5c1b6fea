"""How fast an epoch is with larger and larger batches, until one does not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.exhibit import Axis, Chart, Column, Section, Table, mean_of
from gradsync.record import Run
from gradsync.study.cases import (
    Case,
    cases,
    cpu_percent,
    epoch_seconds,
    epoch_without_data,
    is_projected,
    peak_memory,
    remarks,
    samples_per_second,
    seconds_per_step,
    way_of,
    with_remark,
)
from gradsync.study.settings import Study

SMALLEST, FACTOR = 32, 4
SAMPLES = {"cifar10": 50_000, "mnist": 60_000, "synthetic": 2_560}
MOST = 1 << 17


@dataclass(kw_only=True)
class Batch(Study):
    """Batch sizes × 4 from 32 on, until memory ends or the training set does. Two epochs; the second is timed."""

    batch_sizes: tuple[int, ...] = ()
    """Other batch sizes, for instance 16,64,256."""

    eval: bool = False
    """Test as well."""

    name: ClassVar[str] = "batch"
    title: ClassVar[str] = "Batch size: how fast, and what fits"
    default_epochs: ClassVar[int | None] = 2
    own_processes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.batch_sizes, default=1) < 1:
            raise InputError("--batch-sizes: each must be 1 or more.")

    def plan(self) -> list[RunConfig]:
        return [
            self.run(strategy, workers, batch_size=size)
            for strategy in self.ways
            for workers in self.numbers
            for size in self.batch_sizes or self.default_sizes
        ]

    @property
    def default_sizes(self) -> list[int]:
        """As many as the training set has samples for."""
        samples = self.train_samples or SAMPLES.get(self.data, MOST)
        sizes = [SMALLEST]
        while sizes[-1] * FACTOR <= min(samples, MOST):
            sizes.append(sizes[-1] * FACTOR)
        return sizes

    def is_needless(self, config: RunConfig, done: Sequence[Run]) -> bool:
        """What did not fit into memory does not fit with more samples either."""
        asked = config.resolved()
        return any(
            run.out_of_memory
            and run.summary
            and (run.summary["strategy"], run.summary["world_size"]) == (asked.strategy, asked.workers)
            and run.summary["batch_size"] <= (asked.batch_size or 0)
            for run in done
        )

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        return [Section("Batch size", [table(found), *charts(found)], sentences(found))]


def table(found: Sequence[Case]) -> Table:
    columns = [
        Column("strategy"),
        Column("workers"),
        Column("batch size"),
        Column("epoch", "s"),
        Column("without data loading", "s"),
        Column("step", "s"),
        Column("samples", "1/s", ",.0f"),
        Column("CPU", "%", ".0f"),
        Column("peak memory", "MB", ",.0f"),
        *remarks(found),
    ]
    rows = [
        with_remark(
            case,
            columns,
            [
                case.figures.get("strategy"),
                case.figures.get("world_size"),
                case.figures.get("batch_size"),
                case.of(epoch_seconds),
                case.of_run(epoch_without_data),
                case.of(seconds_per_step),
                case.of(samples_per_second),
                case.of(cpu_percent),
                case.of(lambda figures: megabytes(peak_memory(figures))),
            ],
        )
        for case in found
    ]
    notes = [
        "epoch: the second one, without testing; samples: of all workers, in steps 2 to 40; CPU: 100 % is one core."
    ]
    if any(case.completed and is_projected(case.figures) for case in found):
        notes = ["epoch: as many steps as one has, at the pace of steps 2 to 40; CPU: 100 % is one core."]
    return Table("Time of an epoch by batch size", columns, rows, notes)


def megabytes(count: float | None) -> float | None:
    return None if count is None else count / 1e6


def charts(found: Sequence[Case]) -> list[Chart]:
    done = [case for case in found if case.completed]
    if len(done) < 2:
        return []
    size = Axis("batch", "samples in a batch", log=True)
    rows = [
        {
            "batch": case.figures["batch_size"],
            "seconds": mean_of(case.of(epoch_seconds)),
            "samples": mean_of(case.of(samples_per_second)),
            "memory": megabytes(mean_of(case.of(peak_memory))),
            "strategy": way_of(case, done),
        }
        for case in done
    ]
    return [
        Chart("Time of an epoch by batch size", "lines", rows, size, Axis("seconds", "epoch", "s"), "strategy"),
        Chart("Samples per second by batch size", "lines", rows, size, Axis("samples", "samples", "1/s"), "strategy"),
        Chart("Peak memory by batch size", "lines", rows, size, Axis("memory", "peak memory", "MB"), "strategy"),
    ]


def sentences(found: Sequence[Case]) -> list[str]:
    done = [case for case in found if case.completed and mean_of(case.of(epoch_seconds))]
    texts = []
    if len(done) > 1:
        first, best = done[0], min(done, key=lambda case: mean_of(case.of(epoch_seconds)) or 0.0)
        slow, fast = mean_of(first.of(epoch_seconds)) or 0.0, mean_of(best.of(epoch_seconds)) or 1.0
        texts.append(
            f"On {first.figures['device']}, an epoch of {first.figures['model']} takes {slow:.3g} s with batches of "
            f"{first.figures['batch_size']}, and {fast:.3g} s with batches of {best.figures['batch_size']}: "
            f"{slow / fast:.2f}× as fast, and the fastest."
        )
    for case in found:
        if case.runs[0].out_of_memory:
            texts.append(f"Memory ends below batches of {case.figures['batch_size']}: that one did not fit.")
        elif not case.completed:
            texts.append(f"Batches of {case.figures.get('batch_size')}: {case.remark}.")
    return texts
