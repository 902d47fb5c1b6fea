"""Parameter servers that wait for all workers, against servers that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradsync.config import Facts, RunConfig
from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.exhibit.cases import STRATEGY, WORKERS, case_table, share_of
from gradsync.exhibit.columns import axis, cell_so_far, column, heights
from gradsync.exhibit.form import Axis, Chart, Column, Exhibit, Mark, Section, Table
from gradsync.exhibit.remarks import one_run_each, within
from gradsync.figures.cases import Case, cases
from gradsync.figures.catalogue.of_host import CPU, DEVICE_MEMORY
from gradsync.figures.catalogue.of_learning import ACCURACY, STALENESS, UPDATES
from gradsync.figures.catalogue.of_time import FINISH, TRAIN
from gradsync.figures.catalogue.of_traffic import RECEIVED, SENT
from gradsync.figures.noise import estimate
from gradsync.figures.value import ratio, written
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy

DEFAULT_WORKERS = (1, 2, 3)
BATCHES = (50, 100)


@dataclass(kw_only=True)
class SyncAsync(SettingsStudy):
    """Synchronous against asynchronous parameter servers, by workers and batch size."""

    model: str = "logistic"
    """vgg11, resnet18, alexnet, mnist-cnn, logistic, gpt, or your own as package.module:function or
    file.py:function."""

    strategies: tuple[str, ...] = ("ps-sync", "ps-async")
    """The strategies to compare: ps-sync, ps-async, or your own with parameter servers."""

    batch_sizes: tuple[int, ...] = BATCHES
    """Samples per step and worker, for instance 10,50,100,200,500."""

    name: ClassVar[str] = "sync-async"
    title: ClassVar[str] = "Parameter servers: waiting for all, or not"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            raise InputError("--batch-sizes: name at least one, each 1 or more.")

    def check_facts(self, facts: Mapping[str, Facts]) -> None:
        if wrong := [name for name, each in facts.items() if not each.has_servers]:
            raise InputError(
                f"--strategies has {', '.join(wrong)}: this study is about strategies with parameter servers. Use "
                "ps-sync, ps-async, or your own ServerStrategy as file.py:Class."
            )

    def own_processes(self, asked: RunConfig) -> bool:
        """Peak memory belongs to a process, and includes whatever it ran before."""
        return True

    def plan(self) -> list[RunConfig]:
        return [
            self.run(strategy, workers, batch_per_worker=size)
            for strategy in self.strategies
            for workers in self.workers or DEFAULT_WORKERS
            for size in self.batch_sizes
        ]

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        if not found:
            return []
        exhibits: list[Exhibit] = [table(found), finish_table(found), *charts(found)]
        return [Section("Waiting for all, or not", exhibits, list(sentences(found)))]


def table(found: Sequence[Case]) -> Table:
    figures = [UPDATES, STALENESS, ACCURACY, TRAIN, CPU, DEVICE_MEMORY, SENT, RECEIVED]
    facts = STRATEGY | WORKERS | {"batch per worker": share_of}
    return case_table("Synchronous and asynchronous parameter servers", found, facts, figures)


def finish_table(found: Sequence[Case]) -> Table:
    columns = [
        Column("strategy"),
        Column("workers"),
        Column("batch per worker"),
        Column("worker"),
        column(FINISH),
    ]
    rows = [
        [
            case.figures.strategy,
            case.figures.world_size,
            share_of(case),
            rank.rank,
            cell_so_far(case, FINISH, rank.rank),
        ]
        for case in found
        for rank in case.figures.ranks
    ]
    return Table("When each worker finished", columns, rows, [f"{FINISH.note}."])


def charts(found: Sequence[Case]) -> Iterator[Chart]:
    done = [case for case in found if case.completed]
    most = max((case.figures.world_size for case in done), default=0)
    rows: list[Mark] = [
        {
            "strategy": case.figures.strategy,
            "workers": case.figures.world_size,
            "panel": counted(case.figures.world_size, "worker"),
            "batch": share_of(case),
            **heights(case, ACCURACY, TRAIN),
        }
        for case in done
    ]
    x = Axis("batch", "batch per worker", log=True)
    if len({row["batch"] for row in rows}) > 1:
        tested = [row for row in rows if row[ACCURACY.name] is not None]
        if tested:
            yield Chart("Accuracy by batch size", "lines", tested, x, axis(ACCURACY), "strategy", "panel")
        yield Chart("Time by batch size", "lines", rows, x, axis(TRAIN), "strategy", "panel")
    finishes: list[Mark] = [
        {
            "worker": f"worker {rank.rank}",
            **heights(case, FINISH, rank=rank.rank),
            "strategy": case.figures.strategy,
            "panel": f"batch {share_of(case)}",
        }
        for case in done
        if case.figures.world_size == most > 1
        for rank in case.figures.ranks
    ]
    if finishes:
        title = f"When each of {most} workers finished"
        yield Chart(title, "bars", finishes, Axis("worker", "worker"), axis(FINISH), "strategy", "panel")


def sentences(found: Sequence[Case]) -> Iterator[str]:
    """Each asynchronous case against the synchronous ones of as many workers and the same batch."""
    several = len({case.figures.strategy for case in found}) > 2
    done = [case for case in found if case.completed and case.figures.world_size > 1]
    compared: list[Case] = []
    for other in filter(is_asynchronous, done):
        for sync in done:
            workers, share = other.figures.world_size, share_of(other)
            if is_asynchronous(sync) or (sync.figures.world_size, share_of(sync)) != (workers, share):
                continue
            times = ratio(estimate(other, TRAIN), estimate(sync, TRAIN))
            ours, theirs = sync.value(ACCURACY), other.value(ACCURACY)
            one, two = (f" with {case.figures.strategy}" if several else "" for case in (other, sync))
            told = []
            if times is not None:
                apart = within(other, sync, TRAIN)
                told.append(f"takes {written(times, '.2f')} of the time of synchronous training{two}{apart}")
            if ours is not None and theirs is not None:
                apart = within(other, sync, ACCURACY)
                told.append(f"reaches {ACCURACY.text(theirs)} against {ACCURACY.text(ours)}{apart}")
            if told:
                compared += [sync, other]
                joined = (", and " if "," in told[0] else " and ").join(told)
                yield f"{counted(workers, 'worker')}, batches of {share}: asynchronous training{one} {joined}."
    yield from one_run_each(compared)


def is_asynchronous(case: Case) -> bool:
    return case.run.resolved.asynchronous
