"""Figures of runs for the tables of a study: repeats taken together, missing and failed runs told apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.exhibit import Column, Value, over_repeats
from gradsync.meter.ledger import read_step
from gradsync.record import Run, rank_file, read_rows

Figures = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """The runs that differ in their seed alone."""

    runs: Sequence[Run]

    @property
    def figures(self) -> Figures:
        """What the first of them was asked and came to."""
        return self.runs[0].summary or {}

    @property
    def setting(self) -> Figures:
        return self.runs[0].config

    @property
    def completed(self) -> bool:
        return all(run.status == "completed" for run in self.runs)

    def of(self, figure: Callable[[Figures], float | None]) -> Value:
        """A figure of their summaries: one number, or mean and spread; None where a run was not completed."""
        return over_repeats(figure(run.summary) for run in self.runs if run.summary) if self.completed else None

    def of_run(self, figure: Callable[[Run], float | None]) -> Value:
        return over_repeats(map(figure, self.runs)) if self.completed else None

    @property
    def remark(self) -> str:
        """Why there are no figures."""
        failed = next((run for run in self.runs if run.status != "completed"), None)
        if failed is None:
            return ""
        return "out of memory" if failed.out_of_memory else failed.status


def cases(runs: Iterable[Run]) -> list[Case]:
    """In the order in which each was first made."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        setting = {name: value for name, value in run.config.items() if name not in ("seed", "out")}
        found.setdefault(json.dumps(setting, sort_keys=True), []).append(run)
    return [Case(tuple(each)) for each in found.values()]


def way_of(case: Case, found: Sequence[Case]) -> str:
    """Its strategy, with the number of workers where that differs."""
    name = case.figures["strategy"]
    numbers = {other.figures["world_size"] for other in found if other.figures["strategy"] == name}
    return name if len(numbers) == 1 else f"{name} × {case.figures['world_size']}"


def remarks(found: Sequence[Case]) -> list[Column]:
    """A last column for them, if there are any."""
    return [Column("remark")] if any(case.remark for case in found) else []


def with_remark(case: Case, columns: Sequence[Column], row: Sequence[Value]) -> list[Value]:
    return [*row, case.remark] if columns and columns[-1].name == "remark" else list(row)


# Figures of a summary. Each is None where it was not measured.


def seconds_per_step(figures: Figures) -> float | None:
    return figures["seconds_per_step"]


def epoch_seconds(figures: Figures) -> float | None:
    """The last whole epoch, in which nothing is done for the first time; else as many steps at the measured pace."""
    if figures["epoch_seconds"]:
        return figures["epoch_seconds"][-1]
    if figures["seconds_per_step"] is None or not figures["steps_per_epoch"]:
        return None
    return figures["seconds_per_step"] * figures["steps_per_epoch"]


def is_projected(figures: Figures) -> bool:
    return not figures["epoch_seconds"]


def accuracy(figures: Figures) -> float | None:
    return figures["test"]["accuracy"] if figures["test"] else None


def test_loss(figures: Figures) -> float | None:
    return figures["test"]["loss"] if figures["test"] else None


def train_loss(figures: Figures) -> float | None:
    return figures["train_loss"][-1] if figures["train_loss"] else None


def train_accuracy(figures: Figures) -> float | None:
    found = figures.get("train_accuracy")
    return found[-1] if found else None


def samples_per_second(figures: Figures) -> float | None:
    return figures["samples_per_second"]


def train_seconds(figures: Figures) -> float | None:
    """From the first step of any worker to the last step of all, with testing between epochs, without starting up."""
    found = [rank["finish_seconds"] for rank in figures["ranks"]]
    return max((value for value in found if value is not None), default=None)


def cpu_percent(figures: Figures) -> float | None:
    """Of all workers together; 100 is one core."""
    return total(rank["cpu_percent"] for rank in figures["ranks"])


def peak_memory(figures: Figures) -> float | None:
    """Of the worker that needed most, in bytes: a GPU's where it computed on one."""
    name = (
        "gpu_peak_memory_bytes"
        if any("gpu_peak_memory_bytes" in r for r in figures["ranks"])
        else "peak_memory_bytes"
    )
    found = [rank.get(name) for rank in figures["ranks"]]
    return max((value for value in found if value is not None), default=None)


def network_bytes(rank: Figures, name: str) -> float | None:
    """sent_bytes or received_bytes of a rank, as the kernel counted."""
    return rank["network"][name] if rank["network"] else None


def total(values: Iterable[float | None]) -> float | None:
    found = list(values)
    return None if not found or None in found else sum(value for value in found if value is not None)


def epoch_without_data(run: Run) -> float | None:
    """The last whole epoch without the time in which batches were made, by the slowest worker."""
    assert run.summary
    steps = run.summary["steps_per_epoch"]
    slowest: list[float] = []
    for rank in run.summary["ranks"]:
        rows = [row for row in read_rows(rank_file(run.folder, rank["rank"])) if row["kind"] == "step"]
        epochs = {row["epoch"] for row in rows}
        whole = [epoch for epoch in epochs if sum(row["epoch"] == epoch for row in rows) == steps]
        if not whole or "phases" not in rows[0]:
            ledger = run.summary["ledger"]
            return (run.summary["seconds_per_step"] - ledger["data"]) * steps if ledger and steps else None
        last = [row for row in rows if row["epoch"] == max(whole)]
        slowest.append(sum(row["seconds"] - data_seconds(row) for row in last))
    return max(slowest, default=None)


def data_seconds(row: Figures) -> float:
    return sum(end - start for name, start, end in read_step(row).phases if name == "data")
