"""The collective benchmark: every operation on every size over every transport, and two numbers that predict them.

runs/<time>-probe/
  probe.json      what was asked
  gloo/, mpi/     one start of the processes for each transport: config.json, probe.json, rank-N.jsonl, logs/
  probe.csv       a line per transport, operation and size
  summary.json    the same and the fits, written last
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.config.probe import ProbeConfig
from gradsync.errors import InputError
from gradsync.launch.outcome import Outcome, explain
from gradsync.launch.processes import PROBER
from gradsync.parent import signals_held
from gradsync.record import PROBE_FILE, SCHEMA, Row, Run, create_folder, rows_until_damage, write_json
from gradsync.study.bandwidth import Point, fits, points
from gradsync.summary import cluster
from gradsync.writing import write_whole


def probe(config: ProbeConfig, watch: launch.Watch) -> Run:
    """It fails in its record, not here: the caller looks at the status. An interruption ends it."""
    folder = create_folder(Path(config.out), "probe")
    write_json(folder / PROBE_FILE, config.to_dict())
    begin = time.time()
    measured: list[dict[str, Any]] = []
    for run in config.runs():
        one, outcome = measure(run, config, folder, watch)
        measured.append(one)
        if outcome.signal:
            break
    with signals_held():
        summary = summarize(measured, time.time() - begin)
        write_csv(folder / "probe.csv", summary["points"])
        write_json(folder / "summary.json", summary)
    return Run(folder, config.to_dict(), summary)


def measure(run: RunConfig, config: ProbeConfig, folder: Path, watch: launch.Watch) -> tuple[dict[str, Any], Outcome]:
    """One start of the processes: what they found, and why they failed if they did."""
    resolved = run.resolved()
    place = folder / resolved.transport
    place.mkdir()
    write_json(place / "config.json", run.to_dict())
    write_json(place / PROBE_FILE, config.to_dict())
    outcome = launch.start(resolved, [place], PROBER, watch)
    ranks, damage = rows_until_damage(place, resolved.processes)
    if damage and not (outcome.exit_codes or outcome.failure):
        outcome = replace(outcome, failure=damage)
    started = [row for rows in ranks for row in rows if row["kind"] == "start"]
    transport = started[0]["backend"] if started else resolved.transport
    found = points(transport, ranks)
    return {
        "transport": transport,
        "error": reason(outcome, ranks, place, len(found)),
        "world_size": resolved.workers,
        "nodes": len({row["node"] for row in started}),
        "device": started[0]["device"] if started else None,
        "threads": resolved.threads,
        "cluster": cluster(resolved, ranks),
        "points": found,
    }, outcome


def reason(outcome: Outcome, ranks: list[list[Row]], folder: Path, done: int) -> dict[str, Any] | None:
    error = explain(outcome, ranks, folder)
    if error and outcome.signal:
        error["message"] = f"stopped by {outcome.signal} after {done} points"
    return error


def summarize(measured: Sequence[dict[str, Any]], total_seconds: float) -> dict[str, Any]:
    """The whole of summary.json."""
    first = measured[0]
    error = next(({**one["error"], "transport": one["transport"]} for one in measured if one["error"]), None)
    found: list[Point] = [item for one in measured for item in one["points"]]
    return {
        "schema": SCHEMA,
        "kind": "probe",
        "status": "failed" if error else "completed",
        "error": error,
        "world_size": first["world_size"],
        "nodes": first["nodes"],
        "device": first["device"],
        "threads": first["threads"],
        "cluster": first["cluster"],
        "transports": [one["transport"] for one in measured],
        "total_seconds": total_seconds,
        "points": [asdict(item) for item in found],
        "fits": fits(found),
    }


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [item.name for item in fields(Point)])
    writer.writeheader()
    writer.writerows(rows)
    try:
        write_whole(path, text.getvalue())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from None
