"""Impossible figures: bytes take time to move, and no link carries more than its bandwidth."""

from __future__ import annotations

from gradsync.config import Shape
from gradsync.figures.value import percent
from gradsync.record import RunSummary

TOLERANCE = 0.05  # of bytes: headers and control messages
LINK_TOLERANCE = 0.05  # a shaped link lets a burst pass


def link_bytes_per_second(figures: RunSummary) -> float | None:
    """The bandwidth of an emulated node's link; None where it is unknown."""
    bandwidth = figures.cluster.bandwidth if figures.cluster else None
    bits = Shape(bandwidth=bandwidth).bits_per_second if bandwidth else None
    return bits / 8 if bits else None


def flags(
    moved: float,
    declared: float | None,
    counted: float | None,
    wire: float,
    link: float | None,
    rest: float | None,
) -> list[str]:
    """What is impossible, a sentence each.

    Bytes: ``moved`` by the formula for all-reduce, ``declared`` as the closed form of the strategy, if it has one,
    ``counted`` by the kernel. Seconds: ``wire``, in which bytes moved according to the
    ledger; ``rest``, what subtraction leaves for communication. ``link``: bytes per second.
    """
    found = []
    if counted is not None and declared and abs(counted / declared - 1) > TOLERANCE:
        found.append(f"counted bytes are {percent(counted / declared - 1, signed=True)} off the closed form")
    if counted is not None and link is not None and counted > wire * link * (1 + LINK_TOLERANCE):
        found.append("impossible by the ledger: more bytes than the link could carry in that time")
    if rest is not None and rest <= 0:
        found.append("impossible by subtraction: no time is left for communication")
    elif rest is not None and link is not None and moved > rest * link * (1 + LINK_TOLERANCE):
        found.append("impossible by subtraction: more bytes than the link could carry in that time")
    return found
