"""How fast an epoch is with larger and larger batches, until one does not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.exhibit.cases import BATCH, STRATEGY, WORKERS, case_table
from gradsync.exhibit.columns import axis, heights
from gradsync.exhibit.form import Axis, Chart, Mark, Section, Table
from gradsync.exhibit.remarks import one_run_each
from gradsync.figures.cases import Case, cases, way_of
from gradsync.figures.catalogue.of_host import CPU, DEVICE_MEMORY
from gradsync.figures.catalogue.of_time import EPOCH, EPOCH_WITHOUT_DATA, SAMPLES, STEP
from gradsync.figures.noise import estimate, is_chance
from gradsync.figures.value import mean_of, ratio, written
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy
from gradsync.text import joined

SMALLEST, FACTOR = 32, 4
SET_SIZES = {"cifar10": 50_000, "mnist": 60_000, "synthetic": 2_560}
MOST = 1 << 17


@dataclass(kw_only=True)
class BatchStudy(SettingsStudy):
    """Batch sizes 32, 128, ... until memory or data runs out; times the second epoch."""

    batch_sizes: tuple[int, ...] = ()
    """Other batch sizes, for instance 16,64,256."""

    eval: bool = False
    """Test as well."""

    name: ClassVar[str] = "batch"
    title: ClassVar[str] = "Batch size: how fast, and what fits"
    default_epochs: ClassVar[int | None] = 2

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
        """32, 128, ... up to the number of training samples."""
        samples = self.train_samples or SET_SIZES.get(self.data, MOST)
        sizes = [SMALLEST]
        while sizes[-1] * FACTOR <= min(samples, MOST):
            sizes.append(sizes[-1] * FACTOR)
        return sizes

    def own_processes(self, asked: RunConfig) -> bool:
        """Peak memory belongs to a process, and includes whatever it ran before."""
        return True

    def is_needless(self, asked: RunConfig, done: Sequence[Run]) -> bool:
        """What did not fit into memory does not fit with more samples either."""
        return any(
            run.out_of_memory
            and (run.config["strategy"], run.config["workers"]) == (asked.strategy, asked.workers)
            and (run.config["batch_size"] or 0) <= (asked.batch_size or 0)
            for run in done
        )

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        return [Section("Batch size", [table(found), *charts(found)], sentences(found))]


def table(found: Sequence[Case]) -> Table:
    figures = (EPOCH, EPOCH_WITHOUT_DATA, STEP, SAMPLES, CPU, DEVICE_MEMORY)
    return case_table("Time of an epoch by batch size", found, STRATEGY | WORKERS | BATCH, figures)


def charts(found: Sequence[Case]) -> list[Chart]:
    done = [case for case in found if case.completed]
    if len(done) < 2:
        return []
    size = Axis("batch", "batch size", log=True)
    rows: list[Mark] = [
        {
            "batch": case.figures.batch_size,
            **heights(case, EPOCH, SAMPLES, DEVICE_MEMORY),
            "strategy": way_of(case, done),
        }
        for case in done
    ]
    return [
        Chart("Time of an epoch by batch size", "lines", rows, size, axis(EPOCH), "strategy"),
        Chart("Throughput by batch size", "lines", rows, size, axis(SAMPLES), "strategy"),
        Chart("Peak memory by batch size", "lines", rows, size, axis(DEVICE_MEMORY), "strategy"),
    ]


def sentences(found: Sequence[Case]) -> list[str]:
    ways = dict.fromkeys(way_of(case, found) for case in found)
    done = [case for case in found if case.completed and mean_of(case.value(EPOCH))]
    texts = []
    for way in ways:
        own = [case for case in done if way_of(case, found) == way]
        texts += [fastest(own, f", {way}" if len(ways) > 1 else ""), *one_run_each(own)] if len(own) > 1 else []
    for case in found:
        if case.run.out_of_memory:
            texts.append(f"Batches of {case.figures.batch_size} did not fit into memory.")
        elif not case.completed:
            texts.append(f"Batches of {case.figures.batch_size}: {case.remark}.")
    return list(dict.fromkeys(texts))


def fastest(own: Sequence[Case], way: str) -> str:
    """The first batch size against the one with the shortest epoch, and against those that chance may have slowed."""
    first, best = own[0], min(own, key=lambda case: mean_of(case.value(EPOCH)) or 0.0)
    slow, fast = first.value(EPOCH), best.value(EPOCH)
    text = (
        f"On {first.figures.device}{way}, an epoch of {first.figures.model} takes {EPOCH.text(slow)} s with batches "
        f"of {first.figures.batch_size}"
    )
    rivals = [case for case in own if case is not best and is_chance(case, best, EPOCH)]
    if best is first or first in rivals:
        return f"{text}: no larger batch is faster{' by more than the uncertainty' if rivals else ''}."
    times = written(ratio(estimate(first, EPOCH), estimate(best, EPOCH)), ".2f")
    text = f"{text}, and {EPOCH.text(fast)} s with batches of {best.figures.batch_size}: {times}× as fast"
    if rivals:
        sizes = joined([f"{case.figures.batch_size}" for case in rivals])
        verb = "is" if len(rivals) == 1 else "are"
        return f"{text}. It is undecided which batch size is the fastest: {sizes} {verb} within the uncertainty."
    return f"{text}, and the fastest of all."
