"""What a collective of ``count`` bytes puts on the wire at each of ``size`` ranks, in closed form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traffic:
    """Bytes one rank sends and receives."""

    sent: float = 0.0
    received: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.sent + other.sent, self.received + other.received)


def all_reduce(size: int, count: float) -> Traffic:
    """Ring: reduce-scatter, then all-gather, each (N−1)/N of the payload."""
    each = 2 * (size - 1) / size * count
    return Traffic(each, each)


def gather(rank: int, size: int, count: float) -> Traffic:
    """To rank 0."""
    return Traffic(0, (size - 1) * count) if rank == 0 else Traffic(count, 0)


def scatter(rank: int, size: int, count: float) -> Traffic:
    """From rank 0."""
    return Traffic((size - 1) * count, 0) if rank == 0 else Traffic(0, count)


def broadcast(rank: int, size: int, count: float) -> Traffic:
    """From rank 0 down a binomial tree: whoever has it passes it on, in ⌈log₂ N⌉ rounds."""
    reach = 1 << (size - 1).bit_length()
    below = reach if rank == 0 else rank & -rank  # the distances this rank serves: powers of two below it
    children = sum(rank + (1 << bit) < size for bit in range(below.bit_length() - 1))
    return Traffic(children * count, 0 if rank == 0 else count)
