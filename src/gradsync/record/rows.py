"""The rows of the ranks: what each kind has, and the one place where a line becomes a row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from gradsync.record.damage import DamagedRecord, parse
from gradsync.record.folder import MOST_RANKS, is_probe, rank_file
from gradsync.record.shape import Filled, Within, Wrong, checker
from gradsync.values import shown

Row = dict[str, Any]

LONGEST = 1e12  # seconds
Count = Annotated[int, Within(0)]
Number = Annotated[int, Within(1)]
Bytes = Annotated[float, Within(0)]
Seconds = Annotated[float, Within(0, LONGEST)]
Duration = Annotated[float, Within(1e-9, LONGEST)]  # of something that was done: it is divided by
Time = Annotated[float, Within(-LONGEST, LONGEST)]
Loss = Annotated[float, Within(-1e290, 1e290)]  # may be this large before it is none; sums of it are still numbers
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


class ProbeStart(_PlaceAdded):
    world_size: Ranks
    node: str
    pid: Annotated[int, Within(2)]
    device: str
    backend: str | None
    threads: Number


class _StartAdded(TypedDict, total=False):
    ranks: Ranks
    read_seconds: Seconds
    buffers: str
    wire_bytes: tuple[Bytes, Bytes] | None


class Start(ProbeStart, _StartAdded):
    role: Literal["worker", "server"]
    strategy: str
    model: str
    data: str
    batch_size: Number
    parameters: Count
    gradient_bytes: Bytes
    network_source: str | None
    setup_payload: list[tuple[str, Bytes, Bytes]]
    steps: Number
    steps_per_epoch: Number


class Clock(TypedDict):
    offset: Time
    bound: Time
    time: Time


class Links(TypedDict):
    links: dict[str, tuple[Bytes, Seconds]]


class RoundTrip(TypedDict):
    round_trip: Seconds | None


class _HostAdded(TypedDict, total=False):
    run_seconds: Seconds | None
    run_delay_seconds: Seconds | None
    gpu_peak_memory_bytes: Bytes
    gpu_utilization: float | None


class HostSample(_HostAdded):
    time: Time
    cpu_seconds: Seconds
    memory_bytes: Bytes
    peak_memory_bytes: Bytes
    sent_bytes: Bytes | None
    received_bytes: Bytes | None


class _StepAdded(TypedDict, total=False):
    correct: Count
    update: Count
    begin: Time
    first_collective: Count
    payload: dict[str, tuple[Bytes, Bytes]]
    phases: Annotated[list[tuple[str, Time]], Filled()]
    collectives: list[tuple[str, str, Bytes, Bytes, Time, Time, Annotated[int, Within(0, 1)]]]


class Step(_StepAdded):
    step: Number
    epoch: Number
    loss: Loss | None
    samples: Number
    seconds: Duration


class _TestAdded(TypedDict, total=False):
    update: Count


class Test(_TestAdded):
    step: Count
    epoch: Count
    loss_sum: Loss | None
    correct: Count
    count: Count
    whole: bool


class Push(TypedDict):
    worker: Count
    update: Count
    staleness: Count
    applied: bool
    begin: Time
    seconds: Seconds


class Lost(TypedDict):
    worker: Count
    message: str


class Goodbye(TypedDict):
    worker: Count


class _EndAdded(TypedDict, total=False):
    cores: Cores
    parameters_sha256: str
    buffers_sha256: str


class End(_EndAdded):
    time: Time


class _ErrorAdded(TypedDict, total=False):
    silent_peers: list[str]


class Error(_ErrorAdded):
    type: str
    message: str
    traceback: str
    lost_peer: bool
    time: Time


class Point(TypedDict):
    operation: str
    size: Number
    bytes: Number
    seconds: Annotated[list[Duration], Filled()]


Shapes = dict[str, Any]
"""kind -> its declaration"""

ANY_RANK: Shapes = {"end": End, "error": Error}
TRAINING: Shapes = ANY_RANK | {
    "start": Start,
    "clock": Clock,
    "links": Links,
    "round-trip": RoundTrip,
    "host": HostSample,
    "step": Step,
    "test": Test,
    "push": Push,
    "lost": Lost,
    "goodbye": Goodbye,
}
PROBING: Shapes = ANY_RANK | {"start": ProbeStart, "point": Point}

STAMPS = ("phases", "collectives")
MEASURED = ("begin", "first_collective", "payload")


def shapes_in(folder: Path) -> Shapes:
    """What the rows in a folder may be: of a run, or of a collective benchmark."""
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
    elif kind == "test" and row["correct"] > row["count"]:
        raise Wrong(f"correct is {row['correct']} of {row['count']}")
    return row


def thinned(row: Row, stamps_until: int) -> Row:
    step = row.get("step")
    if type(step) is int and step > stamps_until:
        return {name: value for name, value in row.items() if name not in STAMPS}
    return row


def check_step(row: Row) -> None:
    """A step that was measured has all that belongs to it."""
    if row.get("correct", 0) > row["samples"]:
        raise Wrong(f"correct is {row['correct']} of {row['samples']}")
    for names in (MEASURED, STAMPS):
        present = [name in row for name in names]
        if any(present) and not all(present):
            raise Wrong(f"{names[present.index(False)]} is missing")
    if "phases" in row and "begin" not in row:
        raise Wrong("begin is missing")


def read_rows(path: Path, stamps_until: int | None = None) -> Iterator[Row]:
    """Every whole row; the last line of a killed process may be half written.

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
    """The same until the first row that is damaged: for who must go on whatever a rank has written."""
    with suppress(DamagedRecord):
        yield from read_rows(path, stamps_until)


def rank_rows(folder: Path, world_size: int, stamps_until: int | None = None) -> list[list[Row]]:
    """All rows of all ranks."""
    return [list(read_rows(rank_file(folder, rank), stamps_until)) for rank in range(world_size)]


def rows_until_damage(
    folder: Path, world_size: int, stamps_until: int | None = None
) -> tuple[list[list[Row]], DamagedRecord | None]:
    """Each rank's rows as far as they can be read, and what is wrong with the next one."""
    everyone: list[list[Row]] = []
    damage = None
    for rank in range(world_size):
        everyone.append([])
        try:
            for row in read_rows(rank_file(folder, rank), stamps_until):
                everyone[-1].append(row)
        except DamagedRecord as error:
            damage = damage or error
    return everyone, damage
