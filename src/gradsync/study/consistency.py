"""Figures that cannot be: bytes, time and bandwidth must go together, and no link carries more than it can."""

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
    strategy: str,
    moved: float,
    counted: float | None,
    link: float | None,
    by_ledger: float | None,
    by_subtraction: float | None,
    seconds: float,
) -> list[str]:
    """Sentences, none if all is well. ``moved``: bytes by formula; bandwidths in bytes a second."""
    found = []
    if counted is not None and moved and strategy in RING_LIKE and abs(counted / moved - 1) > TOLERANCE:
        found.append(f"counted bytes are {counted / moved - 1:+.0%} off the formula")
    if by_ledger is not None and abs(by_ledger * seconds - moved) > 1e-6 * moved:
        found.append("bytes are not bandwidth × time")
    for name, value in (("ledger", by_ledger), ("subtraction", by_subtraction)):
        if value is not None and link is not None and value > link * (1 + LINK_TOLERANCE):
            found.append(f"by {name} more than the link carries: cannot be")
    if by_subtraction is None:
        found.append("by subtraction no time is left for communication: cannot be")
    return found
