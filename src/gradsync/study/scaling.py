"""How much faster more workers are: on the same batch (strong), and on one that grows with them (weak)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.exhibit import IDEAL, Axis, Chart, Column, Exhibit, Section, Spread, Table, Value, mean_of
from gradsync.record import Run
from gradsync.study.cases import Case, cases, remarks, samples_per_second, seconds_per_step, with_remark
from gradsync.study.fit_scaling import Law, amdahl, gustafson
from gradsync.study.place import place_of
from gradsync.study.settings import Study
from gradsync.values import counted

Mode = Literal["strong", "weak"]
DEFAULT_WORKERS = (1, 2, 4)
BATCH_PER_WORKER = 64


@dataclass(kw_only=True)
class Scaling(Study):
    """More workers on a fixed batch (strong) and on a fixed share each (weak): speed-up, efficiency, and two laws."""

    strategies: tuple[str, ...] = ("ddp",)
    """The strategies to scale, in this order. One worker is always local, and what the others are compared with."""

    modes: tuple[Mode, ...] = ("strong", "weak")
    """strong: --batch-size is shared by all workers; weak: each has --batch-per-worker."""

    node_counts: tuple[int, ...] = ()
    """A grid instead of --workers: so many nodes, for instance 1,2,4 ..."""

    per_node: tuple[int, ...] = ()
    """... times so many workers on each, for instance 1,2."""

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
        """Numbers of workers, with one of 1 first, and where they are."""
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
    return "weak" if case.setting["batch_per_worker"] else "strong"


def is_base(case: Case) -> bool:
    return case.completed and case.figures["strategy"] == "local"


def base_of(case: Case, found: Sequence[Case]) -> Case | None:
    """One worker on the same kind of place: a study may have been moved to another machine and gone on there."""
    here = place_of(case.figures)
    return next((other for other in found if is_base(other) and place_of(other.figures) == here), None)


def speed_up(case: Case, found: Sequence[Case]) -> Value:
    """Samples a second, against one worker's: the same as the ratio of times where the batch is the same."""
    base = base_of(case, found)
    one = mean_of(base.of(samples_per_second)) if base else None
    rate = case.of(samples_per_second)
    if not one or rate is None:
        return None
    if isinstance(rate, Spread):
        return Spread(rate.mean / one, rate.deviation / one)
    return (mean_of(rate) or 0.0) / one


def section(mode: str, found: Sequence[Case]) -> Section:
    laws = {name: law for name in strategies(found) if (law := fitted(mode, of_strategy(found, name)))}
    what = {"strong": "the same batch for all", "weak": "the same share for each worker"}[mode]
    exhibits: list[Exhibit] = [table(mode, found), *chart(mode, found, laws)]
    return Section(f"{mode.capitalize()} scaling: {what}", exhibits, list(sentences(mode, found, laws)))


def strategies(found: Sequence[Case]) -> list[str]:
    return list(dict.fromkeys(case.figures["strategy"] for case in found if case.figures["world_size"] > 1))


def of_strategy(found: Sequence[Case], name: str) -> list[Case]:
    return [case for case in found if case.completed and (case.figures["strategy"] == name or is_base(case))]


def fitted(mode: str, found: Sequence[Case]) -> Law | None:
    points = [(case.figures["world_size"], mean_of(speed_up(case, found))) for case in found]
    known = [(workers, value) for workers, value in points if value]
    law = amdahl if mode == "strong" else gustafson
    return law([workers for workers, _ in known], [value for _, value in known])


def table(mode: str, found: Sequence[Case]) -> Table:
    columns = [
        Column("strategy"),
        Column("nodes"),
        Column("workers"),
        Column("batch size"),
        Column("step", "s"),
        Column("samples", "1/s", ",.0f"),
        Column("speed-up", "×", ".2f"),
        Column("efficiency", "", ".0%"),
        Column("compute", "s/step"),
        Column("communication", "s/step"),
        *remarks(found),
    ]
    rows = []
    for case in found:
        workers, ratio = case.figures["world_size"], speed_up(case, found)
        shares = mean_of(ratio)
        row: list[Value] = [
            case.figures["strategy"],
            case.figures["nodes"],
            workers,
            case.figures["batch_size"],
            case.of(seconds_per_step),
            case.of(samples_per_second),
            ratio,
            shares / workers if shares else None,
            case.of(compute_seconds),
            case.of(communication_seconds),
        ]
        rows.append(with_remark(case, columns, row))
    notes = [
        "speed-up: samples a second against one worker's; efficiency: that over the workers; compute: copy, forward, "
        "backward, optimizer; communication: wait and wire, what is hidden behind computing left out."
    ]
    return Table(f"{mode.capitalize()} scaling", columns, rows, notes)


def compute_seconds(figures: dict[str, Any]) -> float | None:
    return parts(figures, "copy", "forward", "backward", "optimizer")


def communication_seconds(figures: dict[str, Any]) -> float | None:
    return parts(figures, "wait", "wire")


def parts(figures: dict[str, Any], *names: str) -> float | None:
    return sum(figures["ledger"][name] for name in names) if figures["ledger"] else None


def chart(mode: str, found: Sequence[Case], laws: dict[str, Law]) -> list[Chart]:
    on_nodes = len({case.figures["nodes"] for case in found if case.figures["world_size"] > 1}) > 1
    rows: list[dict[str, str | int | float | None]] = []
    for name in strategies(found):
        for case in of_strategy(found, name):
            workers, ratio = case.figures["world_size"], speed_up(case, found)
            if (value := mean_of(ratio)) is not None:
                series = f"{name}, {counted(case.figures['nodes'], 'node')}" if on_nodes else name
                spread = ratio.deviation if isinstance(ratio, Spread) else None
                rows.append({"workers": workers, "speed-up": value, "series": series, "spread": spread})
    numbers = sorted({int(row["workers"] or 0) for row in rows})
    if len(numbers) < 2:
        return []
    rows += [{"workers": n, "speed-up": float(n), "series": IDEAL, "spread": None} for n in numbers]
    for name, law in laws.items():
        for n in range(numbers[0], numbers[-1] + 1):
            rows.append({"workers": n, "speed-up": law.speed_up(n), "series": f"{law.name} ({name})", "spread": None})
    y = Axis("speed-up", "speed-up", "×")
    return [
        Chart(
            f"{mode.capitalize()} scaling: speed-up against one worker",
            "lines",
            rows,
            Axis("workers", "workers"),
            y,
            "series",
            deviation="spread" if any(row["spread"] for row in rows) else "",
        )
    ]


def sentences(mode: str, found: Sequence[Case], laws: dict[str, Law]) -> Iterator[str]:
    for name in strategies(found):
        shared = [case for case in of_strategy(found, name) if not is_base(case)]
        measured = [(case, mean_of(speed_up(case, found))) for case in shared]
        best = max((item for item in measured if item[1]), key=lambda item: item[1] or 0.0, default=None)
        if best is None or best[1] is None:
            continue
        case, ratio = best
        workers = case.figures["world_size"]
        yield (
            f"{mode.capitalize()} scaling of {name}: at best {ratio:.2f}× with {counted(workers, 'worker')}, "
            f"{ratio / workers:.0%} of the ideal."
        )
        if name in laws:
            yield f"{name}, {laws[name]}."
    for case in found:
        if not case.completed:
            yield f"{case.figures['strategy']} with {counted(case.figures['world_size'], 'worker')}: {case.remark}."
