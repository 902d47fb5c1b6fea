"""The rows of the ranks: what each kind has, and the one place where a line becomes a row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, cast, get_args

from gradsync.config.task import ACCURACY
from gradsync.config.values import shown
from gradsync.record.damage import DamagedRecord, parse
from gradsync.record.folder import MOST_RANKS, is_probe
from gradsync.record.shape import Filled, Within, Wrong, checker, hints_of

LONGEST = 1e12  # seconds
Count = Annotated[int, Within(0)]
Number = Annotated[int, Within(1)]
Bytes = Annotated[float, Within(0)]
Seconds = Annotated[float, Within(0, LONGEST)]
Duration = Annotated[float, Within(1e-9, LONGEST)]  # of work that was done; it is a divisor, so never 0
Time = Annotated[float, Within(-LONGEST, LONGEST)]
Loss = Annotated[float, Within(-1e290, 1e290)]  # so large at most that sums of it are still finite
Ranks = Annotated[int, Within(1, MOST_RANKS)]
Share = Annotated[float, Within(0, 1)]


class Cores(TypedDict):
    time: Time
    cpu_seconds: Seconds
    run_seconds: Seconds | None
    run_delay_seconds: Seconds | None


class Host(TypedDict):
    processor: str | None
    cores: int | None
    memory_bytes: Bytes | None
    device: str | None
    system: str | None
    python: str | None


class _PlaceAdded(TypedDict, total=False):
    address: str | None
    kernel: str
    start_ticks: Count | None
    began: Time
    core_share: Annotated[float, Within(1e-3, 1)] | None
    cores: Cores
    torch: str
    host: Host


class ProbeStartRow(_PlaceAdded):
    """The start of a collective benchmark."""

    kind: Literal["start"]
    world_size: Ranks
    node: str
    pid: Annotated[int, Within(2)]
    device: str
    backend: str | None
    threads: Number


class _StartAdded(TypedDict, total=False):
    steps: Number
    steps_per_epoch: Number
    ranks: Ranks
    read_seconds: Seconds
    positions: Number | None
    buffers: str
    wire_bytes: tuple[Bytes, Bytes] | None
    remarks: list[str]


class StartRow(ProbeStartRow, _StartAdded):
    role: Literal["worker", "server"]
    strategy: str
    model: str
    data: str
    batch_size: Number
    parameters: Count
    gradient_bytes: Bytes
    network_source: str | None
    setup_payload: list[tuple[str, Bytes, Bytes]]


class ClockRow(TypedDict):
    kind: Literal["clock"]
    offset: Time
    bound: Time
    time: Time


class LinksRow(TypedDict):
    kind: Literal["links"]
    links: dict[str, tuple[Bytes, Seconds]]


class RoundTripRow(TypedDict):
    kind: Literal["round-trip"]
    round_trip: Seconds | None


class _HostAdded(TypedDict, total=False):
    run_seconds: Seconds | None
    run_delay_seconds: Seconds | None
    gpu_peak_memory_bytes: Bytes
    gpu_utilization: float | None


class HostRow(_HostAdded):
    kind: Literal["host"]
    time: Time
    cpu_seconds: Seconds
    memory_bytes: Bytes
    peak_memory_bytes: Bytes
    sent_bytes: Bytes | None
    received_bytes: Bytes | None


class _StepAdded(TypedDict, total=False):
    loss: Loss | None
    samples: Count
    metrics: dict[str, Loss | None]
    correct: Count
    update: Count
    begin: Time
    first_collective: Count
    payload: dict[str, tuple[Bytes, Bytes]]
    phases: Annotated[list[tuple[str, Time]], Filled()]
    collectives: list[tuple[str, str, Bytes, Bytes, Time, Time, Annotated[int, Within(0, 1)]]]


class StepRow(_StepAdded):
    kind: Literal["step"]
    step: Number
    epoch: Number
    seconds: Duration


class _TestAdded(TypedDict, total=False):
    update: Count
    sums: dict[str, Loss | None]
    correct: Count


class TestRow(_TestAdded):
    kind: Literal["test"]
    step: Count
    epoch: Count
    loss_sum: Loss | None
    count: Count
    whole: bool


class PushRow(TypedDict):
    kind: Literal["push"]
    worker: Count
    update: Count
    staleness: Count
    applied: bool
    begin: Time
    seconds: Seconds


class LostRow(TypedDict):
    kind: Literal["lost"]
    worker: Count
    message: str


class GoodbyeRow(TypedDict):
    kind: Literal["goodbye"]
    worker: Count


class LoopTried(TypedDict):
    """A training loop in the way of this name, with the strategy and in one process."""

    name: str
    distance: float | None
    error: str
    left_out: str


class ConformanceRow(TypedDict):
    """What a strategy did besides training, on one rank."""

    kind: Literal["conformance"]
    start_sha256: str
    wire_bytes: tuple[Bytes, Bytes] | None
    closed_form: tuple[Bytes, Bytes] | None
    resumed_distance: float | None
    resumed_error: str
    hooks_stacked: list[str]
    hooks_left: list[str]
    messages_after: Count
    loops: list[LoopTried]


class _EndAdded(TypedDict, total=False):
    cores: Cores
    parameters_sha256: str
    buffers_sha256: str
    remarks: list[str]


class EndRow(_EndAdded):
    kind: Literal["end"]
    time: Time


class _ErrorAdded(TypedDict, total=False):
    silent_peers: list[str]


class ErrorRow(_ErrorAdded):
    kind: Literal["error"]
    type: str
    message: str
    traceback: str
    lost_peer: bool
    time: Time


class PointRow(TypedDict):
    """One operation of a collective benchmark at one message size."""

    kind: Literal["point"]
    operation: str
    size: Number
    bytes: Number
    seconds: Annotated[list[Duration], Filled()]


TrainingRow = (
    StartRow
    | ClockRow
    | LinksRow
    | RoundTripRow
    | HostRow
    | StepRow
    | TestRow
    | PushRow
    | LostRow
    | GoodbyeRow
    | ConformanceRow
    | EndRow
    | ErrorRow
)
Row = TrainingRow | PointRow
"""Distinguished by its kind. The start of a collective benchmark has only what ``ProbeStartRow`` has."""

Shapes = dict[str, Any]
"""kind -> its declaration"""


def by_kind(*declared: Any) -> Shapes:
    return {get_args(hints_of(each)["kind"])[0]: each for each in declared}


TRAINING: Shapes = by_kind(*get_args(TrainingRow))
PROBING: Shapes = by_kind(ProbeStartRow, PointRow, EndRow, ErrorRow)

STAMPS = ("phases", "collectives")
MEASURED = ("begin", "first_collective", "payload")


def shapes_in(folder: Path) -> Shapes:
    """The rows a folder may have: those of a run, or of a collective benchmark."""
    return PROBING if is_probe(folder) else TRAINING


def decode(line: bytes, shapes: Shapes, stamps_until: int | None = None) -> Row:
    """The row in a line, checked; raises ``Wrong``. What is left out of it is not checked, and costs nothing."""
    row = parse(line)
    kind = row.get("kind") if isinstance(row, dict) else None
    if not isinstance(kind, str) or kind not in shapes:
        raise Wrong(f"its kind is {shown(kind)}, not one of {', '.join(shapes)}")
    if stamps_until is not None and kind == "step":
        row = thinned(row, stamps_until)
    checker(shapes[kind])(row)
    if kind == "step":
        check_step(row)
    elif kind == "test":
        check_test(row)
    return cast(Row, row)


def thinned(row: dict[str, Any], stamps_until: int) -> dict[str, Any]:
    step = row.get("step")
    if type(step) is int and step > stamps_until:
        return {name: value for name, value in row.items() if name not in STAMPS}
    return row


def check_step(row: dict[str, Any]) -> None:
    """A step that was measured must have every field of a measurement, and one of no samples learns nothing."""
    learnt = [name for name in ("loss", "metrics", "correct") if name in row]
    if learnt and row.get("samples") == 0:
        raise Wrong(f"it has no samples, but {learnt[0]}")
    if row.get("correct", 0) > row.get("samples", row.get("correct", 0)):
        raise Wrong(f"correct is {row['correct']} of {row['samples']}")
    for names in (MEASURED, STAMPS):
        present = [name in row for name in names]
        if any(present) and not all(present):
            raise Wrong(f"{names[present.index(False)]} is missing")
    if "phases" in row and "begin" not in row:
        raise Wrong("begin is missing")


def check_test(row: dict[str, Any]) -> None:
    if row.get("correct", 0) > row["count"]:
        raise Wrong(f"correct is {row['correct']} of {row['count']}")
    right = row.get("sums", {}).get(ACCURACY) or 0
    if not 0 <= right <= row["count"]:
        raise Wrong(f"sums.accuracy is {right} of {row['count']}")


def read_rows(path: Path, stamps_until: int | None = None) -> Iterator[Row]:
    """Every complete row; the last line of a killed process may be half written.

    ``stamps_until``: leave out the stamps of later steps, which are most of the bytes.
    """
    folder, number = path.parent, 0
    shapes = shapes_in(folder)
    try:
        if not path.is_file():
            if not path.exists():
                return
            raise Wrong("it is not a file")
        with open(path, "rb") as file:
            for line in file:
                number += 1
                if line.endswith(b"\n"):
                    yield decode(line, shapes, stamps_until)
    except OSError as error:
        raise DamagedRecord(folder, f"{path.name}: {error.strerror or error}") from None
    except Wrong as wrong:
        place = f"{path.name}, line {number}" if number else path.name
        raise DamagedRecord(folder, f"{place}: {wrong}") from None


def rows_so_far(path: Path, stamps_until: int | None = None) -> Iterator[Row]:
    """The same up to the first damaged row, for callers that must go on whatever a rank has written."""
    with suppress(DamagedRecord):
        yield from read_rows(path, stamps_until)
