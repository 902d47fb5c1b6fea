"""Figures that cannot be: bytes must have had the time they take, and no link carries more than it can."""

from __future__ import annotations

from typing import Any

from gradsync.config import Shape

TOLERANCE = 0.05  # of bytes: headers and control messages
LINK_TOLERANCE = 0.05  # a shaped link lets a burst pass
RING_LIKE = ("all-reduce", "ring", "bucketed", "ddp")  # move what the formula for all-reduce says


def link_bytes_per_second(figures: dict[str, Any]) -> float | None:
    """Of an emulated node's link; None where nobody has said how fast it is."""
    bandwidth = (figures.get("cluster") or {}).get("bandwidth")
    bits = Shape(bandwidth=bandwidth).bits_per_second if bandwidth else None
    return bits / 8 if bits else None


def flags(
    strategy: str, moved: float, counted: float | None, wire: float, link: float | None, rest: float | None
) -> list[str]:
    """What cannot be, a sentence each.

    Bytes: ``moved`` by formula, ``counted`` by the kernel. Seconds: ``wire`` in which bytes moved, by the ledger;
    ``rest`` for communication, by subtraction. ``link``: bytes a second.
    """
    found = []
    if counted is not None and moved and strategy in RING_LIKE and abs(counted / moved - 1) > TOLERANCE:
        found.append(f"counted bytes are {counted / moved - 1:+.0%} off the formula")
    if counted is not None and link is not None and counted > wire * link * (1 + LINK_TOLERANCE):
        found.append("by ledger more bytes than link × time: cannot be")
    if rest is not None and rest <= 0:
        found.append("by subtraction no time is left for communication: cannot be")
    elif rest is not None and link is not None and moved > rest * link * (1 + LINK_TOLERANCE):
        found.append("by subtraction more bytes than link × time: cannot be")
    return found
