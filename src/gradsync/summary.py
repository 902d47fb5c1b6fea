"""From the rows of all ranks to summary.json: arithmetic only."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from gradsync.config import RunConfig, Shape
from gradsync.meter import slow_links, stragglers
from gradsync.meter.figures import figures, without_core
from gradsync.meter.ledger import HIDDEN, PARTS, Ledger, Step, ledgers, mean
from gradsync.meter.staleness import of_worker, pushes, served
from gradsync.meter.timeline import whole_steps
from gradsync.record import SCHEMA, Row

FIRST, LAST = 2, 40  # the seeds time steps 2 to 40: the first one pays for warming up


def summarize(
    config: RunConfig,
    everyone: list[list[Row]],
    error: dict[str, Any] | None,
    total_seconds: float,
    lost: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """The whole of summary.json. ``config`` is resolved; ``everyone`` is what each rank has written, servers last.

    ``lost``: the workers that went while the others went on.
    """
    ranks = everyone[: config.trainers]
    gone = {item["rank"] for item in lost}
    start = next((row for rows in ranks if (row := first(rows, "start"))), {})
    seconds = [row["seconds"] for rows in ranks for row in timed(rows)]
    per_step = statistics.fmean(seconds) if seconds else None
    return {
        "schema": SCHEMA,
        "status": "failed" if error else "completed",
        "error": error,
        "lost": list(lost),
        "world_size": config.workers,
        "nodes": len({row["node"] for rows in everyone if (row := first(rows, "start"))}),
        "workers_per_node": config.workers_per_node,
        "launcher": config.launcher,
        "cluster": cluster(config, everyone),
        "host": start.get("host"),
        "strategy": config.strategy,
        "server_count": config.servers,
        "options": config.options,
        "model": config.model,
        "data": config.data,
        "precision": config.precision,
        "norm": config.norm,
        "parameters": start.get("parameters"),
        "steps": max(len(of_kind(rows, "step")) for rows in ranks),
        "steps_per_epoch": start.get("steps_per_epoch"),
        "batch_size": config.batch_size,
        "threads": config.threads,
        "accumulate": config.accumulate,
        "transport": start.get("backend"),
        "lr": config.lr,
        "lr_factor": config.lr_factor,
        "weight_decay": config.weight_decay,
        "buffers": start.get("buffers"),
        "device": start.get("device"),
        "seconds_per_step": per_step,
        "seconds_per_step_spread": statistics.stdev(seconds) if len(seconds) > 1 else None,
        "samples_per_second": samples_per_second([rows for rank, rows in enumerate(ranks) if rank not in gone]),
        "epoch_seconds": epoch_seconds(ranks, start.get("steps_per_epoch")),
        "read_seconds": max(
            (row.get("read_seconds", 0.0) for rows in ranks if (row := first(rows, "start"))), default=None
        ),
        "total_seconds": total_seconds,
        "train_loss": train_loss(ranks),
        "train_accuracy": train_accuracy(ranks),
        "test": combined_test(ranks, gone),
        **served(everyone),
        **measured(ranks, pushes(everyone)),
        "servers": [
            rank_summary(rows, rank) | {"pushes": len(of_kind(rows, "push"))} | figures(rows)
            for rank, rows in enumerate(everyone)
            if rank >= config.trainers
        ],
    }


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def first(rows: list[Row], kind: str) -> Row | None:
    return next((row for row in rows if row["kind"] == kind), None)


def timed(rows: list[Row]) -> list[Row]:
    return [row for row in of_kind(rows, "step") if FIRST <= row["step"] <= LAST]


def samples_per_second(ranks: list[list[Row]]) -> float | None:
    """Each rank's samples in the timed steps over the time it took, added up: they may go at different speeds."""
    each = [
        sum(row["samples"] for row in rows) / sum(row["seconds"] for row in rows)
        for rows in map(timed, ranks)
        if rows
    ]
    return sum(each) if each else None


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


def train_accuracy(ranks: list[list[Row]]) -> list[float]:
    """Share of the samples of each epoch that were recognised when their batch came; empty if not counted."""
    counts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for rows in ranks:
        for row in of_kind(rows, "step"):
            if "correct" in row:
                counts[row["epoch"]].append((row["correct"], row["samples"]))
    return [
        sum(right for right, _ in pairs) / sum(count for _, count in pairs) for _, pairs in sorted(counts.items())
    ]


def weighted_mean(pairs: list[tuple[float | None, int]]) -> float | None:
    values = [(value, weight) for value, weight in pairs if value is not None]
    if len(values) < len(pairs):
        return None
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def combined_test(ranks: list[list[Row]], lost: set[int]) -> dict[str, Any] | None:
    """The test figures of the run: the ranks' shares added up, or one rank's where each tested the whole set.

    That one is the rank that has seen the most updates of a server, else rank 0.
    """
    last = [tests[-1] if (tests := of_kind(rows, "test")) else None for n, rows in enumerate(ranks) if n not in lost]
    found = [row for row in last if row]
    if not found or len(found) < len(last):
        return None
    if found[0]["whole"]:
        return test_figures([max(found, key=lambda row: row.get("update", 0))])
    return test_figures(found)


def test_figures(rows: list[Row]) -> dict[str, Any] | None:
    """None where no sample was tested."""
    count = sum(row["count"] for row in rows)
    correct = sum(row["correct"] for row in rows)
    losses = [row["loss_sum"] for row in rows]
    if not count:
        return None
    return {
        "loss": None if None in losses else sum(losses) / count,
        "accuracy": correct / count,
        "correct": correct,
        "count": count,
    }


def measured(ranks: list[list[Row]], pushed: list[Row]) -> dict[str, Any]:
    """Ledger, straggler, and the ranks with all their figures; ``pushed``: their gradients as servers saw them."""
    begins = [row["begin"] for rows in ranks for row in of_kind(rows, "step")[:1] if "begin" in row]
    steps = whole_steps(ranks, FIRST, LAST)
    each = [ledgers(step) for step in steps]
    beside = [figures(rows) for rows in ranks]
    return {
        **mean_ledger([ledger for step in each for ledger in step]),
        "straggler": straggler(ranks, steps, beside),
        "ranks": [
            rank_summary(rows, rank)
            | {"finish_seconds": finish(rows, min(begins, default=0.0)), **of_worker(rank, pushed)}
            | mean_ledger([step[rank] for step in each])
            | beside[rank]
            for rank, rows in enumerate(ranks)
        ],
    }


def cluster(config: RunConfig, everyone: list[list[Row]]) -> dict[str, Any] | None:
    """What was asked of the emulated nodes, and for how much of the time each wanted a core and got none."""
    if not config.is_emulated:
        return None
    delays: dict[str, list[float]] = defaultdict(list)
    for rows in everyone:
        delay = without_core(rows)
        if (start := first(rows, "start")) and delay is not None:
            delays[start["node"]].append(delay)
    asked = {item.name: getattr(config, item.name) for item in fields(Shape)}
    return {"name": config.cluster, **asked, "run_delay_percent": {node: max(each) for node, each in delays.items()}}


def mean_ledger(items: list[Ledger]) -> dict[str, Any]:
    """The parts, which add up to the time of a step, and beside them the communication hidden behind these."""
    found = mean(items)
    if found is None:
        return {"ledger": None, HIDDEN: None}
    return {"ledger": {part: found[part] for part in PARTS}, HIDDEN: found[HIDDEN]}


def straggler(ranks: list[list[Row]], steps: list[list[Step]], beside: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Who the others wait for: for its link, or for itself, and whether it only lacks a core; ``beside``: figures."""
    if steps and (link := slow_links.find(ranks, *pace(ranks, steps))):
        return asdict(link)
    found = stragglers.find(steps)
    if not found:
        return None
    without_core = [(rank["run_delay_percent"] or 0.0) / 100 for rank in beside]
    return asdict(stragglers.blame_cores(found, without_core, steps))


def pace(ranks: list[list[Row]], steps: list[list[Step]]) -> tuple[int, float, float]:
    """Steps made, the seconds of one, and how many collectives it has."""
    made = max(len(of_kind(rows, "step")) for rows in ranks)
    seconds = statistics.median(step.seconds for each in steps for step in each)
    return made, seconds, statistics.median(len(step.collectives) for each in steps for step in each)


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
        "epochs": [
            {"epoch": row["epoch"], "update": row.get("update"), **figures}
            for row in tests
            if row["whole"] and (figures := test_figures([row]))
        ],
    }


def finish(rows: list[Row], begin: float) -> float | None:
    """When this rank ended its last step, from the first step of any rank on. All on one clock."""
    steps = [row for row in of_kind(rows, "step")[-1:] if "begin" in row]
    return steps[0]["begin"] + steps[0]["seconds"] - begin if steps else None
