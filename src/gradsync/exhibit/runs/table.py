"""Runs as one table: a row each, what all share in the title, what differs in columns of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradsync.exhibit.columns import DEFAULT, choose
from gradsync.exhibit.form import Column, Table
from gradsync.exhibit.runs.subjects import Subject, strategy_name
from gradsync.figures.cases import Case
from gradsync.figures.catalogue.of_speed_up import has_speed_ups
from gradsync.figures.catalogue.of_time import is_projected
from gradsync.figures.metrics import metrics_of
from gradsync.figures.value import Value
from gradsync.record import RunSummary

SHARED = ("model", "data", "batch_size", "steps", "precision", "norm")
FORMS = {
    "model": "{}",
    "data": "on {}",
    "batch_size": "· global batch {:,}",
    "steps": "· {:,} steps",
    "precision": "· {}",
}


def runs_table(subjects: Sequence[Subject], columns: Sequence[str] = ()) -> Table:
    """``columns``: names of figures and facts instead of the usual ones."""
    found = [item.case for item in subjects]
    settings = [setting_of(case) for case in found]
    shared = {name: value for name, value in settings[0].items() if all(other[name] == value for other in settings)}
    differing = [name for name in SHARED if name not in shared]
    metrics = metrics_of(case.figures for case in found)
    chosen = choose(columns or default(found, metrics), [*metrics, *columns])  # columns: checked by the command
    head = [Column("strategy"), *(Column(name.replace("_", " ")) for name in differing)]
    if not all(case.completed for case in found):
        head.append(Column("status"))
    rows: list[list[Value]] = []
    for item, setting in zip(subjects, settings, strict=True):
        row: list[Value] = [name_in_table(item, subjects), *(setting[name] for name in differing)]
        row += [] if head[-1].name != "status" else [item.case.status]
        rows.append([*row, *(choice.value(item.case, found) for choice in chosen.values())])
    width = len(head)
    notes = [
        choice.note
        for index, choice in enumerate(chosen.values(), start=width)
        if choice.note and any(row[index] is not None for row in rows)
    ]
    return Table(
        title(shared),
        [*head, *(choice.column for choice in chosen.values())],
        rows,
        [*deviations(found), *(projected(found) if "epoch" in chosen else ()), *sentence(notes)],
    )


def default(found: Sequence[Case], metrics: Sequence[str]) -> list[str]:
    """The usual columns, and those that tell these runs apart."""
    more = {
        "nodes": any(case.figures.nodes > 1 for case in found),
        "servers": len({case.figures.server_count for case in found if case.figures.server_count}) > 1,
        "transport": len({case.figures.transport for case in found if case.figures.transport}) > 1,
        "updates": any(case.figures.updates for case in found),
        "staleness": any(case.figures.staleness for case in found),
    }
    first, *rest = DEFAULT
    if any(case.figures.positions for case in found):
        rest[rest.index("samples") : rest.index("samples") + 1] = ["samples", "tokens"]
    return [first, *(name for name, wanted in more.items() if wanted), *rest, *metrics]


def setting_of(case: Case) -> dict[str, Any]:
    return {name: getattr(case.figures, name) for name in SHARED}


def name_in_table(item: Subject, subjects: Sequence[Subject]) -> str:
    """The strategy alone, where the columns of the table show the rest; else the name that tells it apart."""
    same = [other for other in subjects if strategy_name(other.figures) == strategy_name(item.figures)]
    told = {(other.figures.world_size, other.figures.nodes, *setting_of(other.case).values()) for other in same}
    return strategy_name(item.figures) if len(told) == len(same) else item.name


def title(shared: dict[str, Any]) -> str:
    parts = [form.format(shared[name]) for name, form in FORMS.items() if shared.get(name) is not None]
    return " ".join([*parts, *(["· without norm"] if shared.get("norm") == "none" else [])]) or "Runs"


def deviations(found: Sequence[Case]) -> list[str]:
    """What ± means."""
    repeats = {len(case.runs) for case in found}
    timed = [case.figures for case in found if case.figures.timed_steps]
    windows = list(dict.fromkeys(map(window_text, timed)))
    if max(repeats) > 1:
        return [f"±: standard deviation over {' or '.join(map(str, sorted(repeats)))} runs with different seeds."]
    if not windows:
        return []
    of_ratios = "; for speed-up and efficiency, the standard error of the mean" if has_speed_ups(found) else ""
    return [f"±: standard deviation within one run, over {' or '.join(windows)}{of_ratios}."]


def projected(found: Sequence[Case]) -> list[str]:
    """Of a table with epochs."""
    cut = any(case.figures.timed_steps and is_projected(case.figures) for case in found)
    return (
        ["The epoch time of a run that ended within its first epoch is estimated from the step time."] if cut else []
    )


def window_text(figures: RunSummary) -> str:
    if not figures.timed_steps:
        return "no step"
    return f"steps {figures.window_first} to {figures.window_last}"


def sentence(notes: Sequence[str]) -> list[str]:
    return ["; ".join(notes) + "."] if notes else []
