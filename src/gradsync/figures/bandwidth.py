"""From the rows of all ranks to times, bandwidths as nccl-tests defines them, and a fit for each operation.

https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace

from gradsync.ledger.cost import link_share
from gradsync.record import RankRecord
from gradsync.record.summaries import ProbeFit, ProbePoint


def points(transport: str, ranks: Sequence[RankRecord]) -> list[ProbePoint]:
    """The points that all ranks have recorded, in the order they were measured."""
    seconds: dict[tuple[str, int, int], list[list[float]]] = defaultdict(list)
    for record in ranks:
        for row in record.points:
            seconds[row["operation"], row["size"], row["bytes"]].append(row["seconds"])
    return [
        point(transport, operation, len(ranks), size, count, [max(each) for each in zip(*found, strict=True)])
        for (operation, size, count), found in seconds.items()
        if len(found) == len(ranks) and len({len(each) for each in found}) == 1
    ]


def point(
    transport: str, operation: str, workers: int, size: int, count: int, slowest: Sequence[float]
) -> ProbePoint:
    mean, factor = statistics.fmean(slowest), link_share(operation, workers)
    return ProbePoint(
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


def fits(found: Sequence[ProbePoint]) -> list[ProbeFit]:
    """A fit for every transport and operation with at least two sizes: t = α + S · factor / β."""
    from gradsync.figures.fit import fit  # numpy, which --help does not need

    curves: dict[tuple[str, str], list[ProbePoint]] = defaultdict(list)
    for item in found:
        curves[item.transport, item.operation].append(item)
    return [
        ProbeFit(
            transport=transport,
            operation=operation,
            workers=curve[0].workers,
            factor=curve[0].factor,
            sizes=len(curve),
            **asdict(fit([item.bytes * item.factor for item in curve], [item.seconds for item in curve])),
        )
        for (transport, operation), curve in curves.items()
        if len({item.bytes for item in curve}) > 1
    ]


def repeated(found: Sequence[ProbePoint]) -> list[ProbePoint]:
    """Repeats of a benchmark merged into one: the mean of their times, with their deviation as the spread."""
    groups: dict[tuple[str, str, int], list[ProbePoint]] = defaultdict(list)
    for item in found:
        groups[item.transport, item.operation, item.size].append(item)
    return [each[0] if len(each) == 1 else together(each) for each in groups.values()]


def together(points: Sequence[ProbePoint]) -> ProbePoint:
    """Of the mean times, as if each were one measurement."""
    first, seconds = points[0], [item.seconds for item in points]
    return replace(
        point(first.transport, first.operation, first.workers, first.size, first.bytes, seconds),
        iterations=sum(item.iterations for item in points),
        median_seconds=statistics.median(item.median_seconds for item in points),
    )
