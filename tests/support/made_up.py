"""Runs as their ranks would have left them, with times of our choice: what studies show is worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradsync.config import Facts, Resolved, RunConfig, resolve, strategy_name
from gradsync.ledger.summary import summarize
from gradsync.record import RankLog, Run, create_folder, rank_records, read_run, write_json, write_settings
from gradsync.record.run import EARLIER_FACTS
from gradsync.record.summaries import Error

PARAMETERS = 1000


def resolved(config: RunConfig) -> Resolved:
    """What it comes to, without asking its strategy, which would import torch."""
    return resolve(config, EARLIER_FACTS.get(strategy_name(config), Facts()))


def made_up(
    out: Path,
    config: RunConfig,
    compute: float = 0.1,
    wire: float = 0.0,
    accuracy: float = 0.5,
    loss: float = 1.0,
    steps_per_epoch: int = 10,
    error: dict[str, Any] | None = None,
    sent: int | None = None,
    later: float = 1.0,
) -> Run:
    """Every step: a tenth of a millisecond for the batch, ``compute`` seconds of forward, ``wire`` of all-reduce.

    ``sent``: bytes each rank sends a step. Default: what an all-reduce of 1,000 parameters does. ``later``: how many
    times as long the steps after the fortieth take.
    """
    came_to = resolved(config)
    folder = create_folder(out, "made-up")
    write_settings(folder, came_to)
    size = came_to.trainers
    steps = came_to.steps or (came_to.epochs or 1) * steps_per_epoch
    each = 2 * (size - 1) / size * 4 * PARAMETERS if sent is None else sent
    for rank in range(size):
        log = RankLog(folder, rank)
        for row in rank_rows(came_to, rank, steps, steps_per_epoch, compute, wire, accuracy, loss, each, later):
            log.write(**row)
        log.close()
    why = Error(**error) if error else None
    write_json(folder / "summary.json", summarize(came_to, rank_records(folder, size), why, 1.0).to_dict())
    found = read_run(folder)
    assert isinstance(found, Run)
    return found


def start_row(**changes: Any) -> dict[str, Any]:
    """What a rank writes first, in full."""
    return {
        "kind": "start",
        "rank": 0,
        "ranks": 2,
        "role": "worker",
        "node": "node1",
        "kernel": "one",
        "pid": 1000,
        "device": "cpu",
        "backend": "gloo",
        "threads": 1,
        "torch": "2.13.0",
        "strategy": "ddp",
        "model": "logistic",
        "data": "synthetic",
        "world_size": 2,
        "batch_size": 64,
        "parameters": PARAMETERS,
        "gradient_bytes": 4 * PARAMETERS,
        "read_seconds": 0.1,
        "network_source": "lo",
        "wire_bytes": None,
        "setup_payload": [],
        "steps": 10,
        "steps_per_epoch": 10,
        **changes,
    }


def step_row(step: int = 1, **changes: Any) -> dict[str, Any]:
    """Of a run that was not measured."""
    return {"kind": "step", "step": step, "epoch": 1, "loss": 1.5, "samples": 32, "seconds": 0.5, **changes}


def stamped(step: int, forward: float) -> dict[str, Any]:
    """Forward, then an all-reduce that ends at 100 ms."""
    return step_row(
        step,
        seconds=0.1,
        begin=100.0 + 0.1 * step,
        phases=[["forward", 0.0], ["agree", forward]],
        first_collective=step,
        collectives=[["all_reduce", "gradients", 4, 4, forward, 0.1, 0]],
        payload={},
    )


def rank_rows(
    config: Resolved,
    rank: int,
    steps: int,
    steps_per_epoch: int,
    compute: float,
    wire: float,
    accuracy: float,
    loss: float,
    sent: float,
    later: float = 1.0,
) -> list[dict[str, Any]]:
    data = 1e-4
    usual = data + compute + wire
    start = start_row(
        rank=rank,
        ranks=config.trainers,
        node=f"node{config.places[rank] + 1}",
        pid=1000 + rank,
        backend="gloo" if config.trainers > 1 else None,
        strategy=config.strategy,
        model=config.model,
        data=config.data,
        world_size=config.workers,
        batch_size=config.batch_size,
        wire_bytes=[int(sent), int(sent)],
        steps=steps,
        steps_per_epoch=steps_per_epoch,
    )
    host = {
        "kind": "host",
        "memory_bytes": 10**8,
        "peak_memory_bytes": 10**8,
        "run_seconds": 0.0,
        "run_delay_seconds": 0.0,
    }
    rows: list[dict[str, Any]] = [
        start,
        {**host, "time": 0.0, "cpu_seconds": 0.0, "sent_bytes": 0, "received_bytes": 0},
    ]
    begin = 0.0
    for step in range(1, steps + 1):
        seconds = usual * (later if step > 40 else 1.0)
        epoch = (step - 1) // steps_per_epoch + 1
        collectives = [["all-reduce", "gradients", int(sent), int(sent), data + compute, usual, 0]] if wire else []
        rows.append(
            {
                "kind": "step",
                "step": step,
                "epoch": epoch,
                "loss": loss / epoch,
                "samples": config.batch_size // config.trainers,
                "seconds": seconds,
                "begin": begin,
                "phases": [["data", 0.0], ["forward", data], ["agree", data + compute]],
                "first_collective": step - 1,
                "collectives": collectives,
                "payload": {"gradients": [int(sent), int(sent)]} if wire else {},
            }
        )
        begin += seconds
    counts = {"cpu_seconds": steps * compute, "sent_bytes": int(sent * steps), "received_bytes": int(sent * steps)}
    rows.append({**host, "time": begin, **counts})
    test = {"kind": "test", "step": steps, "epoch": 1, "whole": rank == 0 and config.trainers == 1}
    rows.append({**test, "loss_sum": 100.0 * loss, "correct": round(accuracy * 1000), "count": 1000})
    return rows
