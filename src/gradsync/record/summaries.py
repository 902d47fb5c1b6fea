"""summary.json, of a run and of a collective benchmark: what it has, and what must go together in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, Literal, TypedDict

from gradsync.config import Shape
from gradsync.errors import InputError
from gradsync.record.rows import (
    Bytes,
    Clock,
    Count,
    Duration,
    Host,
    Loss,
    Number,
    Ranks,
    Seconds,
    Share,
    Time,
)
from gradsync.record.shape import Filled, Within, Wrong, checker
from gradsync.values import shown

SCHEMA = 3
OLDEST_SCHEMA = 2  # the first with a ledger

Summary = dict[str, Any]


class Test(TypedDict):
    loss: Loss | None
    accuracy: Share
    correct: Count
    count: Number


class TestOfEpoch(Test):
    epoch: Count
    update: Count | None


class _LedgerOnce(TypedDict, total=False):
    hidden_comm: Time


class Ledger(_LedgerOnce):
    data: Time
    copy: Time
    forward: Time
    backward: Time
    wait: Time
    wire: Time
    optimizer: Time
    other: Time


class Traffic(TypedDict):
    sent_bytes: Bytes
    received_bytes: Bytes


class Network(Traffic):
    steps: Count
    source: str
    closed_form: Traffic | None
    overhead_percent: float | None


class Payload(Traffic):
    kinds: dict[str, Traffic]
    setup: dict[str, Traffic]


class _OnGpu(TypedDict, total=False):
    gpu_peak_memory_bytes: Bytes | None
    gpu_utilization: float | None


class Rank(_OnGpu):
    rank: Count
    role: str | None
    node: str | None
    steps: Count
    seconds_per_step: Duration | None
    parameters_sha256: str | None
    buffers_sha256: str | None
    test: Test | None
    epochs: list[TestOfEpoch]
    finish_seconds: Time | None
    dropped: Count | None
    staleness: float | None
    ledger: Ledger | None
    hidden_comm: Time | None
    network: Network | None
    payload: Payload | None
    cpu_percent: float | None
    run_delay_percent: float | None
    memory_bytes: Bytes | None
    peak_memory_bytes: Bytes | None
    clock: list[Clock]


class _ErrorAdded(TypedDict, total=False):
    signal: Literal["SIGINT", "SIGTERM", "SIGHUP"]
    out_of_memory: bool
    transport: str


class Error(_ErrorAdded):
    rank: Count | None
    type: str
    message: str
    traceback: str
    log: list[str]


class LostWorker(TypedDict):
    rank: Count
    steps: Count
    message: str


class ClusterShape(TypedDict):
    name: str | None
    nodes: Ranks | None
    bandwidth: str | None
    latency: str | None
    cpus: Annotated[float, Within(0.01)] | None
    memory: str | None
    run_delay_percent: dict[str, float]


class Staleness(TypedDict):
    histogram: dict[str, Number]
    mean: Annotated[float, Within(0)] | None
    max: Count | None
    dropped: Count


class StragglerFound(TypedDict):
    rank: Count
    late_steps: Count
    steps: Count
    seconds: Time
    cause: str


class _Ended(TypedDict):
    schema: int
    status: Literal["completed", "failed"]
    error: Error | None
    world_size: Ranks
    nodes: Annotated[int, Within(0)]
    device: str | None
    threads: Number | None
    cluster: ClusterShape | None
    total_seconds: Time | None


class RunSummary(_Ended):
    lost: list[LostWorker]
    workers_per_node: Ranks | None
    launcher: str | None
    host: Host | None
    strategy: str
    server_count: Count | None
    options: dict[str, str] | None
    model: str
    data: str
    precision: str
    norm: str | None
    parameters: Count | None
    steps: Count
    steps_per_epoch: Number | None
    batch_size: Number
    accumulate: Number | None
    transport: str | None
    lr: float | None
    lr_factor: float | None
    weight_decay: float | None
    buffers: str | None
    seconds_per_step: Duration | None
    seconds_per_step_spread: Seconds | None
    samples_per_second: Annotated[float, Within(0)] | None
    epoch_seconds: list[Duration]
    read_seconds: Seconds | None
    train_loss: list[Loss | None]
    train_accuracy: list[Share]
    test: Test | None
    updates: Count | None
    staleness: Staleness | None
    ledger: Ledger | None
    hidden_comm: Time | None
    straggler: StragglerFound | None
    ranks: Annotated[list[Rank], Filled()]
    servers: list[Rank]


class PointFound(TypedDict):
    transport: str
    operation: str
    workers: Ranks
    size: Number
    bytes: Number
    iterations: Number
    seconds: Duration
    spread_seconds: Seconds | None
    median_seconds: Duration
    factor: Annotated[float, Within(0)]
    algorithm_bandwidth: Annotated[float, Within(0)]
    bus_bandwidth: Annotated[float, Within(0)]


class FitFound(TypedDict):
    transport: str
    operation: str
    workers: Ranks
    factor: Annotated[float, Within(0)]
    sizes: Number
    alpha_seconds: Seconds
    beta_bytes_per_second: Annotated[float, Within(0)] | None
    rms_error: float
    largest_error: float


class ProbeSummary(_Ended):
    transports: list[str]
    points: list[PointFound]
    fits: list[FitFound]


def other_version(summary: Any) -> str:
    """Why this version does not read it, if so."""
    schema = summary.get("schema") if isinstance(summary, dict) else None
    if type(schema) is not int or OLDEST_SCHEMA <= schema <= SCHEMA:
        return ""
    if schema > SCHEMA:
        return f"its record has schema {shown(schema)}, from a newer gradsync; this one reads up to {SCHEMA}."
    return f"its record has schema {shown(schema)}, from before there was a ledger."


def check_summary(summary: Any, of_probe: bool) -> Summary:
    """As this version writes it; raises ``Wrong``."""
    checker(ProbeSummary if of_probe else RunSummary)(summary)
    if not of_probe:
        hide_apart(summary)
    for problem in contradictions(summary, of_probe):
        raise Wrong(problem)
    return summary


def hide_apart(summary: Summary) -> None:
    """Schema 2 had hidden_comm inside the ledger."""
    for figures in (summary, *summary["ranks"]):
        if figures["ledger"] and "hidden_comm" in figures["ledger"]:
            figures["hidden_comm"] = figures["ledger"].pop("hidden_comm")


def contradictions(summary: Summary, of_probe: bool) -> Iterator[str]:
    """What no run leaves behind, and what those who show it rely on."""
    if (summary["status"] == "failed") != bool(summary["error"]):
        yield f"status is {summary['status']}, which its error contradicts"
    if cluster := summary["cluster"]:
        try:
            Shape(**{item.name: cluster[item.name] for item in fields(Shape)})
        except InputError as error:
            yield f"cluster: {error}"
    if of_probe:
        return
    ranks = summary["ranks"]
    if [rank["rank"] for rank in ranks] != list(range(len(ranks))):
        yield "ranks are not numbered from 0 on"
    if len({figures[name] is None for figures in (summary, *ranks) for name in ("ledger", "hidden_comm")}) > 1:
        yield "ledger is of some ranks and not of others"
    if summary["ledger"] and summary["seconds_per_step"] is None:
        yield "ledger is there, but no seconds_per_step"
    if summary["straggler"] and summary["straggler"]["rank"] >= len(ranks):
        yield "straggler.rank is not one of the ranks"
    if summary["staleness"] and not all(key.isdecimal() for key in summary["staleness"]["histogram"]):
        yield "staleness.histogram is not by whole numbers"
