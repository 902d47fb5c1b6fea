"""From run folders and studies to one Document: what every format of the report shows. Never needs torch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from gradsync.exhibit import Column, Document, Section, Spread, Table, Value
from gradsync.meter.ledger import HIDDEN, PARTS
from gradsync.record import Run, rank_file, read_rows
from gradsync.report.collect import Found, Shown, shown
from gradsync.report.columns import projected
from gradsync.report.findings import findings, speed_up
from gradsync.report.pictures import (
    MOST_LINES,
    accuracy_curves,
    computing,
    loss_curves,
    one_step,
    step_parts,
)
from gradsync.report.summary import failure_text, host_limits, lost_texts
from gradsync.study import scaling
from gradsync.study.cases import accuracy, cases, epoch_seconds, test_loss, train_loss
from gradsync.study.over_time import network
from gradsync.study.place import place_of
from gradsync.text import printable
from gradsync.values import counted
from gradsync.version import __version__

MOST_STEPS_DRAWN = 6  # runs of which one step and the network are drawn
MOST_TIMED = 24  # runs in one chart of bars


def document(found: Found, command: str = "") -> Document:
    """Studies first, then their runs and all others. ``command``: what was typed, if it is known."""
    items = shown(found.runs)
    said = [sentence for each in found.studies for sentence in each.study.summary(each.runs)]
    about_scaling = any(each.study.name == scaling.Scaling.name for each in found.studies)
    return Document(
        title=title(found, items),
        summary=said or findings(items),
        sections=[
            *(section for each in found.studies for section in each.study.sections(each.runs)),
            *run_sections(items, about_scaling),
        ],
        command=command or commands(found),
        environment=environment(items),
        left_out=found.left_out,
    )


def title(found: Found, items: Sequence[Shown]) -> str:
    if len(found.studies) == 1:
        return found.studies[0].study.title
    if found.studies:
        return f"{len(found.studies)} studies"
    models = dict.fromkeys(f"{item.figures['model']} on {item.figures['data']}" for item in items)
    subject = " and ".join(models) if len(models) < 3 else f"{len(models)} models and data sets"
    return f"{subject}: {counted(len(items), 'run')}"


def run_sections(items: Sequence[Shown], is_about_scaling: bool = False) -> Iterator[Section]:
    """``is_about_scaling``: a study has shown that already."""
    if not items:
        return
    yield Section("Runs", [runs_table(items)], list(remarks([item.run for item in items])))
    if pictured := step_parts(items[:MOST_TIMED]):
        yield Section(
            "Where the time of a step went", [*pictured, parts_table(items), *computing(items[:MOST_TIMED])]
        )
    if curves := [*loss_curves(items[:MOST_LINES]), *accuracy_curves(items[:MOST_LINES])]:
        yield Section("Loss and accuracy", curves, only_first(items, MOST_LINES))
    shared = [item for item in items if len(item.figures["ranks"]) > 1 and item.measured]
    drawn = shared[:MOST_STEPS_DRAWN]
    if steps := [chart for item in drawn for chart in one_step(item)]:
        yield Section("One step, rank by rank", steps, only_first(shared, MOST_STEPS_DRAWN))
    if charts := network([(item.name, item.run) for item in drawn if item.run.summary]):
        yield Section("Network", charts, only_first(shared, MOST_STEPS_DRAWN))
    yield from () if is_about_scaling else scaled(items)


def only_first(items: Sequence[Shown], most: int) -> list[str]:
    return [f"The first {most} of {len(items)} runs are drawn."] if len(items) > most else []


def scaled(items: Sequence[Shown]) -> Iterator[Section]:
    """By workers, where one worker has done the same work."""
    found = cases(item.run for item in items if item.run.status == "completed")
    for mode in ("strong", "weak"):
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for case in found:
            if scaling.mode_of(case) == mode:
                batch = case.figures["batch_size"] if mode == "strong" else case.setting["batch_per_worker"]
                shared = [case.figures[name] for name in ("model", "data", "norm", "precision")]
                bandwidth = (case.figures["cluster"] or {}).get("bandwidth")
                key = (*shared, *place_of(case.figures), bandwidth, batch)
                groups.setdefault(key, []).append(case)
        for group in groups.values():
            if any(map(scaling.is_base, group)) and len({case.figures["world_size"] for case in group}) > 1:
                yield scaling.section(mode, group)


def runs_table(items: Sequence[Shown]) -> Table:
    columns = [
        Column("run"),
        Column("status"),
        Column("workers"),
        Column("nodes"),
        Column("steps"),
        Column("step", "s"),
        Column("speed-up", "×", ".2f"),
        Column("samples", "1/s", ",.0f"),
        Column("epoch", "s"),
        Column("training loss"),
        Column("test loss"),
        Column("accuracy", "", ".2%"),
        Column("total", "s", ".1f"),
    ]
    rows: list[list[Value]] = []
    for item in items:
        figures = item.figures
        step, spread = figures["seconds_per_step"], figures["seconds_per_step_spread"]
        rows.append(
            [
                item.name,
                item.run.status,
                figures["world_size"],
                figures["nodes"],
                figures["steps"],
                Spread(step, spread) if step is not None and spread is not None else step,
                speed_up(item, items),
                figures["samples_per_second"],
                epoch_seconds(figures),
                train_loss(figures),
                test_loss(figures),
                accuracy(figures),
                figures["total_seconds"] if item.run.summary else None,
            ]
        )
    if all(item.run.status == "completed" for item in items):
        columns, rows = without(columns, rows, "status")
    if all(item.figures["nodes"] == 1 for item in items):
        columns, rows = without(columns, rows, "nodes")
    notes = [
        "step: mean ± standard deviation of steps 2 to 40; total: from starting the processes to the last one's end."
    ]
    if any(projected(item.figures) for item in items):
        notes.append("epoch: of runs that ended before one did, as many steps as it has at that pace.")
    return Table("Runs", columns, rows, notes)


def without(
    columns: Sequence[Column], rows: Sequence[Sequence[Value]], name: str
) -> tuple[list[Column], list[list[Value]]]:
    kept = [index for index, column in enumerate(columns) if column.name != name]
    return [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]


def parts_table(items: Sequence[Shown]) -> Table:
    columns = [Column("run"), *(Column(part, "ms") for part in PARTS), Column("step", "ms"), Column("hidden", "ms")]
    rows: list[list[Value]] = []
    for item in items:
        if item.measured:
            parts = [item.figures["ledger"][part] * 1e3 for part in PARTS]
            rows.append([item.name, *parts, sum(parts), item.figures[HIDDEN] * 1e3])
    return Table("The ledger: parts of a step", columns, rows, ["hidden: communication behind computing."])


def remarks(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        yield from (*lost_texts(run), *host_limits(run))
        if run.status != "completed":
            yield failure_text(run).splitlines()[0]


def commands(found: Found) -> str:
    """What makes it again: a study's own command, else every run from its config."""
    of_studies = {run.folder for each in found.studies for run in each.runs}
    single = [
        shlex.join(["gradsync", "train", "--config", str(run.folder / "config.json")])
        for run in found.runs
        if run.folder not in of_studies
    ]
    return printable("\n".join([*(each.command for each in found.studies), *single]))


def environment(items: Sequence[Shown]) -> Table | None:
    """Where the runs were made, as their first ranks wrote it down; each kind once."""
    places: dict[tuple[Value, ...], int] = {}
    for item in items:
        start = next((row for row in read_rows(rank_file(item.run.folder, 0)) if row["kind"] == "start"), None)
        if start:
            place = tuple(about(start, item.run))
            places[place] = places.get(place, 0) + 1
    if not places:
        return None
    columns = [
        Column(name) for name in ("processor", "cores", "device", "system", "Python", "torch", "nodes", "runs")
    ]
    rows = [[*place, count] for place, count in places.items()]
    return Table("Where it was run", columns, rows, [f"Report made by gradsync {__version__}."])


def about(start: dict[str, Any], run: Run) -> Iterator[Value]:
    host = start.get("host") or {}
    yield from (host.get("processor"), host.get("cores"), host.get("device") or start["device"])
    yield from (host.get("system"), host.get("python"), start.get("torch"))
    yield nodes_text((run.summary or {}).get("cluster"), run)


def nodes_text(cluster: dict[str, Any] | None, run: Run) -> str:
    if cluster is None:
        nodes = (run.summary or {}).get("nodes") or 1
        return "this machine" if nodes == 1 else counted(nodes, "node")
    shape = [
        f"{cluster['cpus']:g} of a core each" if cluster["cpus"] else "",
        cluster["bandwidth"] or "",
        f"{cluster['latency']} latency" if cluster["latency"] else "",
        f"{cluster['memory']} each" if cluster["memory"] else "",
    ]
    return ", ".join(["emulated", *filter(None, shape)])
