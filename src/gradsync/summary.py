"""From the rows of all ranks to summary.json: arithmetic only."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import asdict
from typing import Any

from gradsync.config import RunConfig
from gradsync.meter import stragglers
from gradsync.meter.figures import figures
from gradsync.meter.ledger import HIDDEN, PARTS, Ledger, Step, ledgers, mean
from gradsync.meter.timeline import whole_steps
from gradsync.record import SCHEMA, Row

FIRST, LAST = 2, 40  # the seeds time steps 2 to 40: the first one pays for warming up


def summarize(
    config: RunConfig, ranks: list[list[Row]], error: dict[str, Any] | None, total_seconds: float
) -> dict[str, Any]:
    """The whole of summary.json. ``config`` is resolved; ``ranks`` holds what each rank has written."""
    start = first(ranks[0], "start") or {}
    seconds = [row["seconds"] for rows in ranks for row in timed(rows)]
    per_step = statistics.fmean(seconds) if seconds else None
    return {
        "schema": SCHEMA,
        "status": "failed" if error else "completed",
        "error": error,
        "world_size": config.workers,
        "nodes": len({row["node"] for rows in ranks if (row := first(rows, "start"))}),
        "strategy": config.strategy,
        "options": config.options,
        "model": config.model,
        "data": config.data,
        "precision": config.precision,
        "norm": config.norm,
        "parameters": start.get("parameters"),
        "steps": len(of_kind(ranks[0], "step")),
        "steps_per_epoch": start.get("steps_per_epoch"),
        "batch_size": config.batch_size,
        "threads": config.threads,
        "lr": config.lr,
        "weight_decay": config.weight_decay,
        "buffers": start.get("buffers"),
        "device": start.get("device"),
        "seconds_per_step": per_step,
        "seconds_per_step_spread": statistics.stdev(seconds) if len(seconds) > 1 else None,
        "samples_per_second": samples_per_second(ranks),
        "epoch_seconds": epoch_seconds(ranks, start.get("steps_per_epoch")),
        "total_seconds": total_seconds,
        "train_loss": train_loss(ranks),
        "test": combined_test(ranks),
        **measured(ranks),
    }


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def first(rows: list[Row], kind: str) -> Row | None:
    return next((row for row in rows if row["kind"] == kind), None)


def timed(rows: list[Row]) -> list[Row]:
    return [row for row in of_kind(rows, "step") if FIRST <= row["step"] <= LAST]


def samples_per_second(ranks: list[list[Row]]) -> float | None:
    """Samples of all ranks in the timed steps, over the time these took a rank."""
    rows = [row for rows in ranks for row in timed(rows)]
    seconds = sum(row["seconds"] for row in rows) / len(ranks)
    return sum(row["samples"] for row in rows) / seconds if seconds else None


def epoch_seconds(ranks: list[list[Row]], steps_per_epoch: int | None) -> list[float]:
    """Seconds of each whole epoch, by the slowest rank. An epoch cut short is left out."""
    slowest: dict[int, float] = {}
    for rows in ranks:
        seconds: dict[int, list[float]] = defaultdict(list)
        for row in of_kind(rows, "step"):
            seconds[row["epoch"]].append(row["seconds"])
        for epoch, values in seconds.items():
            if len(values) == steps_per_epoch:
                slowest[epoch] = max(slowest.get(epoch, 0.0), sum(values))
    return [slowest[epoch] for epoch in sorted(slowest)]


def train_loss(ranks: list[list[Row]]) -> list[float | None]:
    """Mean loss per sample of each epoch over all ranks; None where a step's loss was not a number."""
    losses: dict[int, list[tuple[float | None, int]]] = defaultdict(list)
    for rows in ranks:
        for row in of_kind(rows, "step"):
            losses[row["epoch"]].append((row["loss"], row["samples"]))
    return [weighted_mean(losses[epoch]) for epoch in sorted(losses)]


def weighted_mean(pairs: list[tuple[float | None, int]]) -> float | None:
    values = [(value, weight) for value, weight in pairs if value is not None]
    if len(values) < len(pairs):
        return None
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def combined_test(ranks: list[list[Row]]) -> dict[str, Any] | None:
    """The test figures of the run: the ranks' shares added up, or rank 0's where each tested the whole set."""
    last = [rows[-1] for rows in (of_kind(rows, "test") for rows in ranks) if rows]
    if len(last) < len(ranks):
        return None
    return test_figures(last[:1] if last[0]["whole"] else last)


def test_figures(rows: list[Row]) -> dict[str, Any]:
    count = sum(row["count"] for row in rows)
    correct = sum(row["correct"] for row in rows)
    losses = [row["loss_sum"] for row in rows]
    return {
        "loss": None if None in losses else sum(losses) / count,
        "accuracy": correct / count,
        "correct": correct,
        "count": count,
    }


def measured(ranks: list[list[Row]]) -> dict[str, Any]:
    """Ledger, straggler, and the ranks with all their figures."""
    steps = whole_steps(ranks, FIRST, LAST)
    each = [ledgers(step) for step in steps]
    beside = [figures(rows) for rows in ranks]
    return {
        **mean_ledger([ledger for step in each for ledger in step]),
        "straggler": straggler(steps, beside),
        "ranks": [
            rank_summary(rows, rank) | mean_ledger([step[rank] for step in each]) | beside[rank]
            for rank, rows in enumerate(ranks)
        ],
    }


def mean_ledger(items: list[Ledger]) -> dict[str, Any]:
    """The parts, which add up to the time of a step, and beside them the communication hidden behind these."""
    found = mean(items)
    if found is None:
        return {"ledger": None, HIDDEN: None}
    return {"ledger": {part: found[part] for part in PARTS}, HIDDEN: found[HIDDEN]}


def straggler(steps: list[list[Step]], ranks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Who the others wait for, and whether it only lacks a core; ``ranks``: the figures of each."""
    found = stragglers.find(steps)
    if not found:
        return None
    without_core = [(rank["run_delay_percent"] or 0.0) / 100 for rank in ranks]
    return asdict(stragglers.blame_cores(found, without_core, steps))


def rank_summary(rows: list[Row], rank: int) -> dict[str, Any]:
    start, end = first(rows, "start") or {}, first(rows, "end") or {}
    seconds = [row["seconds"] for row in timed(rows)]

    tests = of_kind(rows, "test")
    return {
        "rank": rank,
        "role": start.get("role"),
        "node": start.get("node"),
        "steps": len(of_kind(rows, "step")),
        "seconds_per_step": statistics.fmean(seconds) if seconds else None,
        "parameters_sha256": end.get("parameters_sha256"),
        "buffers_sha256": end.get("buffers_sha256"),
        "test": test_figures(tests[-1:]) if tests and tests[-1]["whole"] else None,
    }
