"""The fields of summary.json, of a run and of a collective benchmark."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from gradsync.config.window import DEFAULT_WINDOW
from gradsync.record.rows import (
    Bytes,
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
from gradsync.record.shape import Filled, Within

SCHEMA = 4


class SummaryPart:
    """A part of a summary, with its fields as attributes."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload] # every part is a dataclass


PARTS = ("data", "copy", "forward", "backward", "wait", "wire", "optimizer", "other")
"""The parts of a step's time, which add up to it."""

Ledger = dict[str, Time]
"""The seconds of each part."""


@dataclass(kw_only=True)
class Test(SummaryPart):
    loss: Loss | None
    count: Number
    accuracy: Share | None = None
    """This metric and its number of samples also have fields of their own, as in earlier versions."""

    correct: Count | None = None
    metrics: dict[str, Loss | None] = field(default_factory=dict)
    """Every metric by name; null: not finite."""

    def __post_init__(self) -> None:
        if self.accuracy is not None and not self.metrics:  # as earlier versions wrote it
            self.metrics = {"accuracy": self.accuracy}


@dataclass(kw_only=True)
class TestOfEpoch(Test):
    epoch: Count
    update: Count | None


@dataclass(kw_only=True)
class ByteCounts(SummaryPart):
    sent_bytes: Bytes
    received_bytes: Bytes


@dataclass(kw_only=True)
class Network(ByteCounts):
    steps: Count
    source: str
    closed_form: ByteCounts | None


@dataclass(kw_only=True)
class Payload(ByteCounts):
    kinds: dict[str, ByteCounts]
    setup: dict[str, ByteCounts]


@dataclass(kw_only=True)
class Clock(SummaryPart):
    """This rank's clock minus rank 0's at ``time``, and how far off that may be."""

    time: Time
    offset: Time
    bound: Time


@dataclass(kw_only=True)
class RankSummary(SummaryPart):
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
    gpu_peak_memory_bytes: Bytes | None = None
    gpu_utilization: float | None = None
    pushes: Count | None = None
    """For a server: the gradients pushed to it."""


@dataclass(kw_only=True)
class Error(SummaryPart):
    rank: Count | None
    type: str
    message: str
    traceback: str
    log: list[str]
    signal: Literal["SIGINT", "SIGTERM", "SIGHUP"] | None = None
    out_of_memory: bool | None = None
    transport: str | None = None


@dataclass(kw_only=True)
class LostWorker(SummaryPart):
    rank: Count
    steps: Count
    message: str


@dataclass(kw_only=True)
class ClusterShape(SummaryPart):
    name: str | None
    nodes: Ranks | None
    bandwidth: str | None
    latency: str | None
    cpus: Annotated[float, Within(0.01)] | None
    memory: str | None
    run_delay_percent: dict[str, float]


@dataclass(kw_only=True)
class Staleness(SummaryPart):
    histogram: dict[str, Number]
    mean: Annotated[float, Within(0)] | None
    max: Count | None
    dropped: Count


@dataclass(kw_only=True)
class StragglerFound(SummaryPart):
    rank: Count
    late_steps: Count
    steps: Count
    seconds: Time
    cause: str


@dataclass(kw_only=True)
class Later(SummaryPart):
    """The steps after the window."""

    steps: Number
    seconds_per_step: Duration
    seconds_per_step_spread: Seconds | None


@dataclass(kw_only=True)
class CommonSummary(SummaryPart):
    schema: int
    status: Literal["completed", "failed"]
    error: Error | None
    world_size: Ranks
    nodes: Annotated[int, Within(0)]
    device: str | None
    threads: Number | None
    cluster: ClusterShape | None
    total_seconds: Time | None


@dataclass(kw_only=True)
class RunSummary(CommonSummary):
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
    """Of the metrics in ``train_metrics``, for readers of earlier versions."""

    test: Test | None
    updates: Count | None
    staleness: Staleness | None
    ledger: Ledger | None
    hidden_comm: Time | None
    straggler: StragglerFound | None
    ranks: Annotated[list[RankSummary], Filled()]
    servers: list[RankSummary]
    gradient_bytes: Bytes | None = None
    """Of the parameters that are trained; None in the summaries of earlier versions."""

    loss: str | None = None
    """The loss that is minimized; None in the summaries of earlier versions, whose runs had cross-entropy."""

    optimizer: str | None = None
    metrics: list[str] | None = None
    """The names of those that were asked for; None in earlier versions, which had accuracy alone."""

    train_metrics: dict[str, list[Loss | None]] = field(default_factory=dict)
    """Metric -> its value in each epoch, where the rows of the steps have it."""

    positions: Number | None = None
    """Tokens in a sample, where there is a class for each."""

    window: str = DEFAULT_WINDOW
    """The window that was asked for."""

    window_first: Number | None = None
    """The first and last step that were timed; None if none was."""

    window_last: Number | None = None
    later: Later | None = None
    remarks: list[str] = field(default_factory=list)
    """What could not be seen of a script that was watched, in sentences."""

    def __post_init__(self) -> None:
        if self.train_accuracy and not self.train_metrics:  # as earlier versions wrote it
            self.train_metrics = {"accuracy": list(self.train_accuracy)}

    @property
    def timed_steps(self) -> int:
        """How many steps the means are of."""
        return self.window_last - self.window_first + 1 if self.window_first and self.window_last else 0


@dataclass(kw_only=True)
class ProbePoint(SummaryPart):
    """One operation on one message size over one transport."""

    transport: str
    operation: str
    workers: Ranks
    size: Number
    """The bytes that were asked for."""

    bytes: Number
    """S, the bytes of the message: rounded so that every worker has equally many numbers."""

    iterations: Number
    seconds: Duration
    """Mean over the iterations of the time of the slowest rank."""

    spread_seconds: Seconds | None
    """Its standard deviation; None for one iteration."""

    median_seconds: Duration
    """Robust against the few iterations in which the scheduler ran something else."""

    factor: Annotated[float, Within(0)]
    """Which part of S passes each link when nothing is sent twice."""

    algorithm_bandwidth: Annotated[float, Within(0)]
    """S / t in bytes per second."""

    bus_bandwidth: Annotated[float, Within(0)]
    """S / t · factor: comparable with the bandwidth of a link, whatever the number of workers."""


@dataclass(kw_only=True)
class ProbeFit(SummaryPart):
    """Latency α and bandwidth β of an operation over a transport, and how far the measured times are from the fit."""

    transport: str
    operation: str
    workers: Ranks
    factor: Annotated[float, Within(0)]
    sizes: Number
    alpha_seconds: Seconds
    beta_bytes_per_second: Annotated[float, Within(0)] | None
    rms_error: float
    largest_error: float


@dataclass(kw_only=True)
class ProbeSummary(CommonSummary):
    kind: str = "probe"
    transports: list[str]
    points: list[ProbePoint]
    fits: list[ProbeFit]


Summary = RunSummary | ProbeSummary
