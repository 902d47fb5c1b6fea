"""Figures of our runs under the names that reports use: of a whole run, of a rank, at a step or an epoch."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from gradsync.meter.figures import rate
from gradsync.record import Run, rank_file, read_rows
from gradsync.study import cases
from gradsync.study.communication import parameter_bytes
from gradsync.summary import FIRST, LAST
from gradsync.values import counted

# What one of our units is in the report's. Shares become percent.
UNITS = {
    "": 1.0,
    "×": 1.0,
    "s": 1.0,
    "min": 1 / 60,
    "ms": 1e3,
    "%": 100.0,
    "1/s": 1.0,
    "MB": 1e-6,
    "GiB": 2.0**-30,
    "KB/s": 1e-3,
    "MB/s": 1e-6,
    "GB/s": 1e-9,
}

COUNTED = 0.01  # of bytes: headers, acknowledgements, and when the counter was read

Compared = Literal["absolute", "relative"]


@dataclass(frozen=True)
class At:
    """One of our runs, its summary, and what of it is asked."""

    run: Run
    rank: int | None = None
    x: float | None = None
    against: Run | None = None

    @property
    def figures(self) -> dict[str, Any]:
        assert self.run.summary
        return self.run.summary

    @property
    def of_rank(self) -> dict[str, Any]:
        return self.figures["ranks"][self.rank or 0]


@dataclass(frozen=True)
class Quantity:
    """``of``: in seconds, bytes, or a share; None where it is not known."""

    of: Callable[[At], float | None]
    compared: Compared
    """absolute: ours over theirs means something. relative: only against another row of the same machine."""

    text: str
    learnt: bool = False
    """Whether it tells how well was learnt: then it takes real data and whole epochs."""

    of_steps: bool = False
    """Whether it is the mean of the steps that were timed."""

    of_run: bool = False
    """Whether it grows with the length of the run."""

    noise: float = 0.03
    """Two values that differ by less, as a share, are the same to us."""


def seconds_per_step(at: At) -> float | None:
    return at.of_rank["seconds_per_step"] if at.rank is not None else at.figures["seconds_per_step"]


def timed_steps(run: Run) -> int:
    return max(0, min((run.summary or {}).get("steps", 0), LAST) - FIRST + 1)


def relative_error(run: Run) -> float:
    """Of the mean time of a step, from the spread of the steps that were timed."""
    figures = run.summary or {}
    mean, spread = figures.get("seconds_per_step"), figures.get("seconds_per_step_spread")
    return spread / mean / timed_steps(run) ** 0.5 if mean and spread and timed_steps(run) else 0.0


def accuracy_error(run: Run) -> float:
    """Of a share of so many test samples, as drawing others would change it."""
    test = (run.summary or {}).get("test")
    return (test["accuracy"] * (1 - test["accuracy"]) / test["count"]) ** 0.5 if test else 0.0


def not_learnt(run: Run) -> str:
    """Why its losses and accuracies tell nothing, if so."""
    figures = run.summary
    if run.config["data"] == "synthetic":
        return "made-up data"
    if figures and not figures["epoch_seconds"]:
        return f"{counted(figures['steps'], 'step')} of {figures['steps_per_epoch']} in an epoch"
    return ""


def test_of(at: At) -> dict[str, Any] | None:
    """A rank's own, where ranks have models of their own. Ranks that hold the same bits have tested a share each."""
    if at.rank is None:
        return at.figures["test"]
    return at.of_rank["test"] or (at.figures["test"] if models(at) == 1 else None)


def accuracy(at: At) -> float | None:
    test = test_of(at)
    return test["accuracy"] if test else None


def test_loss(at: At) -> float | None:
    test = test_of(at)
    return test["loss"] if test else None


def at_epoch(values: list[Any], at: At) -> float | None:
    index = int(at.x or 0) - 1
    return values[index] if 0 <= index < len(values) else None


@cache
def losses(folder: Path, rank: int) -> list[float | None]:
    return [row["loss"] for row in read_rows(rank_file(folder, rank)) if row["kind"] == "step"]


def train_loss(at: At) -> float | None:
    """Mean of the last epoch, or of what there is of it: of the run, or of a rank's own samples."""
    if at.rank is None:
        return cases.train_loss(at.figures)
    per_epoch = at.figures["steps_per_epoch"] or 1
    found = losses(at.run.folder, at.rank)
    last = found[(len(found) - 1) // per_epoch * per_epoch :]
    return statistics.fmean(last) if last and None not in last else None  # type: ignore[arg-type]


def speed_up(at: At) -> float | None:
    """Samples a second over those of the run it is against."""
    base = cases.samples_per_second(at.against.summary) if at.against and at.against.summary else None
    own = cases.samples_per_second(at.figures)
    return own / base if own and base else None


def loss_sum(at: At) -> float | None:
    """Of the twenty steps up to x."""
    last = int(at.x or 0)
    found = losses(at.run.folder, at.rank or 0)[last - 20 : last]
    return sum(found) if len(found) == 20 and None not in found else None  # type: ignore[arg-type] # just checked


def running_loss(at: At) -> float | None:
    """Mean of all steps up to the one numbered x, from 0 on."""
    found = losses(at.run.folder, at.rank or 0)[: int(at.x or 0) + 1]
    return statistics.fmean(found) if len(found) > (at.x or 0) and None not in found else None  # type: ignore[arg-type]


def traffic(name: str, per: Literal["run", "step", "epoch"]) -> Callable[[At], float | None]:
    """Bytes of a rank, or of all together where none is named."""

    def of(at: At) -> float | None:
        ranks = [at.of_rank] if at.rank is not None else at.figures["ranks"]
        counted = [rank["network"] for rank in ranks]
        if not all(counted) or not all(network["steps"] for network in counted):
            return None
        whole = sum(network[name] for network in counted)
        each = sum(network[name] / network["steps"] for network in counted)
        return {"run": whole, "step": each, "epoch": each * (at.figures["steps_per_epoch"] or 0)}[per]

    return of


@cache
def top_rate(folder: Path, rank: int, name: str) -> float | None:
    hosts = [row for row in read_rows(rank_file(folder, rank)) if row["kind"] == "host"]
    # The last two samples may be milliseconds apart: what passes in these is no rate.
    rates = [rate(one, other, name) for one, other in pairwise(hosts) if other["time"] - one["time"] > 0.5]
    return max((value for value in rates if value is not None), default=None)


def cpu(at: At) -> float | None:
    """A share: 1 is one core, or on a node that has a share of the cores, all of that."""
    found = at.of_rank["cpu_percent"] if at.rank is not None else cases.cpu_percent(at.figures)
    share = (at.figures.get("cluster") or {}).get("cpus") or 1.0
    return None if found is None else found / 100 / share


def memory(at: At) -> float | None:
    """Of the host: reports are about it."""
    ranks = [at.of_rank] if at.rank is not None else at.figures["ranks"]
    return max((rank["peak_memory_bytes"] for rank in ranks if rank["peak_memory_bytes"]), default=None)


def ledger_epoch(*parts: str) -> Callable[[At], float | None]:
    def of(at: At) -> float | None:
        ledger, steps = at.figures["ledger"], at.figures["steps_per_epoch"]
        return sum(ledger[part] for part in parts) * steps if ledger and steps else None

    return of


def bandwidth(at: At) -> float | None:
    """Bus bandwidth of an all-reduce of all gradients: 2 (N − 1)/N · S over the time of communication in a step."""
    ledger, size = at.figures["ledger"], at.figures["world_size"]
    if not ledger or size < 2 or not at.figures["parameters"]:
        return None
    busy = ledger["wait"] + ledger["wire"] + (at.figures["hidden_comm"] or 0.0)
    gradients = at.figures["parameters"] * parameter_bytes(at.figures)
    return 2 * (size - 1) / size * gradients / busy if busy else None


def payload(kind: str, when: Literal["kinds", "setup"]) -> Callable[[At], float | None]:
    """Bytes of this kind that a rank hands over or takes: in a step, or before the first one."""

    def of(at: At) -> float | None:
        rank = at.of_rank
        if not rank["payload"]:
            return 0.0 if len(at.figures["ranks"]) == 1 else None
        found = rank["payload"][when].get(kind, {"sent_bytes": 0, "received_bytes": 0})
        steps = rank["steps"] if when == "kinds" else 1
        return max(found["sent_bytes"], found["received_bytes"]) / steps if steps else None

    return of


def models(at: At) -> float | None:
    """How many different models the ranks hold at the end, statistics of BatchNorm included."""
    found = {(rank["parameters_sha256"], rank["buffers_sha256"]) for rank in at.figures["ranks"]}
    return float(len(found))


def of_summary(figure: Callable[[dict[str, Any]], float | None]) -> Callable[[At], float | None]:
    return lambda at: figure(at.figures)


QUANTITIES: dict[str, Quantity] = {
    "step": Quantity(seconds_per_step, "relative", "time of a step", of_steps=True),
    "epoch": Quantity(of_summary(cases.epoch_seconds), "relative", "time of an epoch", of_steps=True),
    "epoch-at": Quantity(lambda at: at_epoch(at.figures["epoch_seconds"], at), "relative", "time of the epoch"),
    "epoch-without-data": Quantity(
        lambda at: cases.epoch_without_data(at.run),
        "relative",
        "time of an epoch without making batches",
        of_steps=True,
    ),
    "read": Quantity(lambda at: at.figures["read_seconds"], "relative", "reading the data"),
    "train": Quantity(of_summary(cases.train_seconds), "relative", "time of training", of_run=True),
    "total": Quantity(lambda at: at.figures["total_seconds"], "relative", "time of the whole program", of_run=True),
    "finish": Quantity(lambda at: at.of_rank["finish_seconds"], "relative", "finished", of_run=True),
    "speed-up": Quantity(speed_up, "absolute", "speed-up", of_steps=True),
    "samples": Quantity(of_summary(cases.samples_per_second), "relative", "samples a second", of_steps=True),
    "test-loss": Quantity(test_loss, "absolute", "test loss", learnt=True),
    "accuracy": Quantity(accuracy, "absolute", "test accuracy", learnt=True),
    "train-loss": Quantity(train_loss, "absolute", "training loss of the last epoch", learnt=True),
    "train-accuracy": Quantity(
        of_summary(cases.train_accuracy), "absolute", "training accuracy of the last epoch", learnt=True
    ),
    "train-loss-epoch": Quantity(
        lambda at: at_epoch(at.figures["train_loss"], at), "absolute", "training loss", learnt=True
    ),
    "train-accuracy-epoch": Quantity(
        lambda at: at_epoch(at.figures.get("train_accuracy") or [], at), "absolute", "training accuracy", learnt=True
    ),
    "loss-sum-20": Quantity(loss_sum, "absolute", "training loss, sum of 20 steps"),
    "running-loss": Quantity(running_loss, "absolute", "training loss, mean so far"),
    "sent": Quantity(traffic("sent_bytes", "run"), "relative", "sent", of_run=True),
    "received": Quantity(traffic("received_bytes", "run"), "relative", "received", of_run=True),
    "sent-step": Quantity(traffic("sent_bytes", "step"), "absolute", "sent in a step", noise=COUNTED),
    "received-step": Quantity(traffic("received_bytes", "step"), "absolute", "received in a step", noise=COUNTED),
    "sent-epoch": Quantity(traffic("sent_bytes", "epoch"), "absolute", "sent in an epoch", noise=COUNTED),
    "received-epoch": Quantity(traffic("received_bytes", "epoch"), "absolute", "received in an epoch", noise=COUNTED),
    "top-sent": Quantity(
        lambda at: top_rate(at.run.folder, at.rank or 0, "sent_bytes"), "relative", "most sent in a second"
    ),
    "top-received": Quantity(
        lambda at: top_rate(at.run.folder, at.rank or 0, "received_bytes"), "relative", "most received in a second"
    ),
    "cpu": Quantity(cpu, "relative", "CPU"),
    "memory": Quantity(memory, "relative", "peak memory"),
    "compute": Quantity(
        ledger_epoch("copy", "forward", "backward", "optimizer"), "relative", "computing in an epoch", of_steps=True
    ),
    "communication": Quantity(ledger_epoch("wait", "wire"), "relative", "communicating in an epoch", of_steps=True),
    "bandwidth": Quantity(bandwidth, "relative", "bandwidth used", of_steps=True),
    "gradients-step": Quantity(payload("gradients", "kinds"), "absolute", "gradients in a step", noise=0.0),
    "buffers-step": Quantity(payload("buffers", "kinds"), "absolute", "statistics of BatchNorm in a step", noise=0.0),
    "parameters-start": Quantity(
        payload("parameters", "setup"), "absolute", "parameters before the first step", noise=0.0
    ),
    "models": Quantity(models, "absolute", "different models at the end", noise=0.0),
}
