"""How much faster more workers are: on the same batch (strong), and on one that grows with them (weak)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from gradsync.config import RunConfig
from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.exhibit.cases import BATCH, STRATEGY, WORKERS, case_table
from gradsync.exhibit.columns import axis, height
from gradsync.exhibit.form import IDEAL, Axis, Chart, Exhibit, Mark, Section, Table
from gradsync.exhibit.remarks import one_run_each
from gradsync.exhibit.speed_ups import beyond_ideal, explained
from gradsync.figures.cases import Case, cases
from gradsync.figures.catalogue.of_speed_up import (
    EFFICIENCY,
    SPEED_UP,
    SpeedUp,
    is_one_process,
    is_weak,
    speed_up,
)
from gradsync.figures.catalogue.of_time import COMMUNICATION_STEP, COMPUTE_STEP, SAMPLES, STEP
from gradsync.figures.fit_scaling import Law, amdahl, gustafson
from gradsync.figures.value import Value, deviation_of, mean_of, percent
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy

Mode = Literal["strong", "weak"]
DEFAULT_WORKERS = (1, 2, 4)
BATCH_PER_WORKER = 64


@dataclass(kw_only=True)
class Scaling(SettingsStudy):
    """Strong and weak scaling: speed-up, efficiency, Amdahl's and Gustafson's law."""

    strategies: tuple[str, ...] = ("ddp",)
    """The strategies to scale, in this order. One worker always runs local, and the others are compared with it."""

    modes: tuple[Mode, ...] = ("strong", "weak")
    """strong: --batch-size is shared by all workers; weak: each has --batch-per-worker."""

    node_counts: tuple[int, ...] = ()
    """A grid instead of --workers: numbers of nodes, for instance 1,2,4 ..."""

    per_node: tuple[int, ...] = ()
    """... times numbers of workers on each node, for instance 1,2."""

    eval: bool = False
    """Test as well."""

    name: ClassVar[str] = "scaling"
    title: ClassVar[str] = "Scaling: more workers"

    def __post_init__(self) -> None:
        super().__post_init__()
        if min((*self.node_counts, *self.per_node), default=1) < 1:
            raise InputError("--node-counts and --per-node: each must be 1 or more.")
        if (self.node_counts or self.per_node) and (self.workers or self.nodes or self.workers_per_node):
            raise InputError(
                "--node-counts and --per-node make the grid: leave out --workers, --nodes, --workers-per-node."
            )

    def layouts(self) -> list[tuple[int, dict[str, Any]]]:
        """Numbers of workers, with 1 added in front if it is missing, and the nodes they are on."""
        if self.node_counts or self.per_node:
            nodes, each = self.node_counts or (1,), self.per_node or (1,)
            found = [(n * p, {"nodes": n, "workers_per_node": p}) for n in nodes for p in each]
        else:
            found = [(workers, {}) for workers in self.workers or DEFAULT_WORKERS]
        if all(workers > 1 for workers, _ in found):
            found.insert(0, (1, {"nodes": 1, "workers_per_node": 1} if found[0][1] else {}))
        return found

    def plan(self) -> list[RunConfig]:
        most = max(workers for workers, _ in self.layouts())
        share = self.batch_per_worker or BATCH_PER_WORKER
        batches = {"strong": {"batch_size": self.batch_size or share * most}, "weak": {"batch_per_worker": share}}
        return [
            self.run(strategy, workers, **batches[mode], **where)
            for mode in self.modes
            for workers, where in self.layouts()
            for strategy in (("local",) if workers == 1 else self.strategies)
        ]

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        by_mode = {mode: [case for case in found if mode_of(case) == mode] for mode in ("strong", "weak")}
        return [section(mode, each) for mode, each in by_mode.items() if each]


def mode_of(case: Case) -> str:
    return "weak" if is_weak(case) else "strong"


def section(mode: str, found: Sequence[Case]) -> Section:
    compared = {id(case): item for case in found if (item := speed_up(case, found))}
    laws = {name: law for name in strategies(found) if (law := fitted(mode, of_strategy(found, name), found))}
    what = {"strong": "the same batch for all", "weak": "the same share for each worker"}[mode]
    exhibits: list[Exhibit] = [table(mode, found), *chart(mode, found, laws)]
    pairs = [(case, compared[id(case)]) for case in found if id(case) in compared]
    doubts = list(unlikely(mode, pairs, laws))
    repeats = one_run_each(found) if pairs else []
    told = [*doubts, *sentences(mode, pairs, laws), *repeats, *explained(pairs), *missing(found)]
    return Section(f"{mode.capitalize()} scaling: {what}", exhibits, told, doubts=doubts)


def strategies(found: Sequence[Case]) -> list[str]:
    return list(dict.fromkeys(case.figures.strategy for case in found if not is_one_process(case)))


def of_strategy(found: Sequence[Case], name: str) -> list[Case]:
    return [case for case in found if case.completed and case.figures.strategy == name]


def fitted(mode: str, own: Sequence[Case], found: Sequence[Case]) -> Law | None:
    """The law of the mode, where N is how many times the cores of one process the workers have."""
    items = [item for case in own if (item := speed_up(case, found))]
    law = amdahl if mode == "strong" else gustafson
    return law([item.ideal for item in items], [mean_of(item.ratio) or 0.0 for item in items])


def table(mode: str, found: Sequence[Case]) -> Table:
    facts = STRATEGY | {"nodes": lambda case: case.figures.nodes} | WORKERS | BATCH
    figures = [STEP, SAMPLES, SPEED_UP, EFFICIENCY, COMPUTE_STEP, COMMUNICATION_STEP]
    return case_table(f"{mode.capitalize()} scaling", found, facts, figures)


def chart(mode: str, found: Sequence[Case], laws: dict[str, Law]) -> list[Chart]:
    """A line for each strategy, and for each number of workers per node where that differs."""
    bases = [case for case in found if is_one_process(case) and case.completed]
    on_nodes = len({case.figures.nodes for case in found if not is_one_process(case)}) > 1
    shared = {per_node(case) for case in found if on_nodes and not is_one_process(case)}
    rows: list[Mark] = []
    for name in strategies(found):
        for case in of_strategy(found, name):
            if item := speed_up(case, found):
                series = f"{name}, {per_node(case)} on each node" if len(shared) > 1 else name
                rows += [mark(case.figures.world_size, item.ratio, series)]
                if not any(row["workers"] == 1 and row["series"] == series for row in rows) and bases:
                    rows += [mark(1, 1.0, series)]
    numbers = sorted({int(row["workers"] or 0) for row in rows})
    if len(numbers) < 2:
        return []
    ideals = {case.figures.world_size: item.ideal for case in found if (item := speed_up(case, found))}
    rows += [mark(n, ideals.get(n, 1.0), IDEAL) for n in numbers]
    for name, law in laws.items():
        rows += [mark(n, law.speed_up(ideals.get(n, 1.0)), f"{law.name} ({name})") for n in numbers]
    rows.sort(key=lambda row: (str(row["series"]), int(row["workers"] or 0)))
    title = f"{mode.capitalize()} scaling: speed-up against one process"
    deviation = "spread" if any(row["spread"] for row in rows) else ""
    return [Chart(title, "lines", rows, Axis("workers", "workers"), axis(SPEED_UP), "series", deviation=deviation)]


def mark(workers: int, ratio: Value, series: str) -> Mark:
    return {
        "workers": workers,
        SPEED_UP.name: height(ratio, SPEED_UP),
        "series": series,
        "spread": deviation_of(ratio),
    }


def per_node(case: Case) -> str:
    return counted(-(-case.figures.world_size // max(1, case.figures.nodes)), "worker")


def unlikely(mode: str, pairs: Sequence[tuple[Case, SpeedUp]], laws: dict[str, Law]) -> Iterator[str]:
    """What should not be taken at face value, before any other finding."""
    yield from beyond_ideal([(f"{name_of(case)}, {mode} scaling", item) for case, item in pairs])
    for name, law in laws.items():
        if law.is_poor:
            yield f"{law.name}'s law does not describe {name}: the fit is off by up to {percent(law.largest_error)}."


def sentences(mode: str, pairs: Sequence[tuple[Case, SpeedUp]], laws: dict[str, Law]) -> Iterator[str]:
    for name in dict.fromkeys(case.figures.strategy for case, _ in pairs):
        own = [(case, item) for case, item in pairs if case.figures.strategy == name]
        case, item = max(own, key=lambda pair: mean_of(pair[1].ratio) or 0.0)
        yield (
            f"{mode.capitalize()} scaling of {name}: at best {SPEED_UP.text(item.ratio)}× with "
            f"{counted(case.figures.world_size, 'worker')}, {EFFICIENCY.text(item.efficiency)} of the ideal."
        )
        if name in laws and not laws[name].is_poor:
            yield f"{name}, {laws[name]}."


def missing(found: Sequence[Case]) -> Iterator[str]:
    for case in found:
        if not case.completed:
            yield f"{name_of(case)}: {case.remark}."


def name_of(case: Case) -> str:
    return f"{case.figures.strategy} with {counted(case.figures.world_size, 'worker')}"
