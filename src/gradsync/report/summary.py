"""Run folders as one table, and failed runs as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from gradsync.record import Run
from gradsync.report.columns import DEFAULT, Line, choose, distinct_tests, line, projected, strategy_name
from gradsync.report.tables import plain_table


def runs_table(runs: list[Run], width: int = 160, columns: Sequence[str] = ()) -> Table:
    """One row per run. What all runs share stands above the table, what differs in columns of its own."""
    chosen = choose(columns)
    lines = [line(run) for run in runs]
    settings = [{**item.setting, "steps": item.figures["steps"]} for item in lines]
    shared = {name: value for name, value in settings[0].items() if all(other[name] == value for other in settings)}
    differing = [name for name in settings[0] if name not in shared]
    all_completed = all(item.run.status == "completed" for item in lines)

    table = plain_table(title(shared), caption(lines, columns or DEFAULT), padding=(0, 1 if width > 100 else 0))
    for name in ["strategy", *differing, *([] if all_completed else ["status"])]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for heading, _ in chosen:
        table.add_column(heading, justify="right", overflow="fold")

    for item, setting in zip(lines, settings, strict=True):
        table.add_row(
            strategy_name(item.figures),
            *(str(setting[name]) for name in differing),
            *([] if all_completed else [item.run.status]),
            *(text(item, lines) for _, text in chosen),
        )
    return table


def title(shared: dict[str, Any]) -> str:
    forms = {
        "model": "{}",
        "data": "on {}",
        "batch_size": "· global batch {}",
        "steps": "· {} steps",
        "precision": "· {}",
    }
    parts = [form.format(shared[name]) for name, form in forms.items() if shared.get(name) is not None]
    return " ".join([*parts, *(["· without norm"] if shared.get("norm") == "none" else [])])


def caption(lines: list[Line], columns: Sequence[str]) -> str:
    """The footnotes the figures in the table need."""
    notes = ["s/step: mean ± standard deviation of steps 2 to 40"] if "step" in columns else []
    if "epoch" in columns and any(projected(item.figures) for item in lines):
        notes.append("~ projected from s/step, as the run ended before the epoch did")
    if "accuracy" in columns and any(distinct_tests(item.figures) for item in lines):
        notes.append("several values: one per rank, from rank 0 on, as their models differ")
    if "read" in columns:
        notes.append("read: until every rank had its part of the data set")
    if "total" in columns:
        notes.append("total: from starting the processes until the last one was done")
    return "; ".join(notes) + "." if notes else ""


def failure_text(run: Run) -> str:
    """What went wrong, where, and the last words of the rank it happened on."""
    if run.status == "unfinished":
        return f"{run.name}: unfinished: it is still running, or was killed before it could write its summary."
    assert run.summary
    error = run.summary["error"]
    servers = {server["rank"] for server in run.summary.get("servers") or []}
    role = ", a parameter server" if error["rank"] in servers else ""
    where = f" on rank {error['rank']}{role}" if error["rank"] is not None else ""
    text = f"{run.name}: failed{where}: {error['type']}: {error['message']}"
    detail = error["traceback"].rstrip() or "\n".join(error["log"])
    return text + (f"\n{detail}" if detail and detail not in text else "")


def lost_texts(run: Run) -> list[str]:
    """The workers a run went on without."""
    return [
        f"{run.name}: worker {item['rank']} was lost after {item['steps']} steps ({item['message']}); "
        "the others went on."
        for item in (run.summary or {}).get("lost", [])
    ]


LACKING = 10.0  # percent of the time: less is the noise of any host


def host_limits(run: Run) -> list[str]:
    """When nodes of an emulated cluster wanted cores the host did not have: a result about the host, then."""
    delays = ((run.summary or {}).get("cluster") or {}).get("run_delay_percent") or {}
    short = {node: delay for node, delay in delays.items() if delay >= LACKING}
    if not short:
        return []
    each = ", ".join(f"{node} {delay:.0f} %" for node, delay in sorted(short.items()))
    return [
        f"{run.name}: ready but not running for lack of a core: {each} of the time. This result is limited by the "
        "host's cores, not by the network alone."
    ]
