"""From the rows of all ranks to times, bandwidths as nccl-tests defines them, and a fit for each operation.

https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gradsync.record import Row


@dataclass(frozen=True)
class Point:
    """One operation on one size over one transport."""

    transport: str
    operation: str
    workers: int
    size: int
    """Bytes asked for."""

    bytes: int
    """S, the bytes there were: as many numbers for every worker."""

    iterations: int
    seconds: float
    """Mean over the iterations of the time of the slowest rank."""

    spread_seconds: float | None
    """Standard deviation of that; None for one iteration."""

    median_seconds: float
    """The same without the few iterations in which the scheduler had other things to do."""

    factor: float
    """What part of S passes each link when nothing is sent twice."""

    algorithm_bandwidth: float
    """S / t in bytes per second."""

    bus_bandwidth: float
    """S / t · factor: comparable with the bandwidth of a link, whatever the number of workers."""


def bus_factor(operation: str, workers: int) -> float:
    if operation in ("broadcast", "reduce"):
        return 1.0
    return (2 if operation == "all-reduce" else 1) * (workers - 1) / workers


def points(transport: str, ranks: Sequence[Sequence[Row]]) -> list[Point]:
    """What all ranks have written down, in the order they did it."""
    seconds: dict[tuple[str, int, int], list[list[float]]] = defaultdict(list)
    for rows in ranks:
        for row in rows:
            if row["kind"] == "point":
                seconds[row["operation"], row["size"], row["bytes"]].append(row["seconds"])
    return [
        point(transport, operation, len(ranks), size, count, [max(each) for each in zip(*found, strict=True)])
        for (operation, size, count), found in seconds.items()
        if len(found) == len(ranks) and len({len(each) for each in found}) == 1
    ]


def point(transport: str, operation: str, workers: int, size: int, count: int, slowest: Sequence[float]) -> Point:
    mean, factor = statistics.fmean(slowest), bus_factor(operation, workers)
    return Point(
        transport=transport,
        operation=operation,
        workers=workers,
        size=size,
        bytes=count,
        iterations=len(slowest),
        seconds=mean,
        spread_seconds=statistics.stdev(slowest) if len(slowest) > 1 else None,
        median_seconds=statistics.median(slowest),
        factor=factor,
        algorithm_bandwidth=count / mean,
        bus_bandwidth=count / mean * factor,
    )


def fits(found: Sequence[Point]) -> list[dict[str, object]]:
    """α and β of every transport and operation with at least two sizes: t = α + S · factor / β."""
    from gradsync.study.fit import fit  # numpy: not for --help

    curves: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for item in found:
        curves[item.transport, item.operation].append(item)
    return [
        {
            "transport": transport,
            "operation": operation,
            "workers": curve[0].workers,
            "factor": curve[0].factor,
            "sizes": len(curve),
            **asdict(fit([item.bytes * item.factor for item in curve], [item.seconds for item in curve])),
        }
        for (transport, operation), curve in curves.items()
        if len({item.bytes for item in curve}) > 1
    ]
