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


def link_share(operation: str, size: int) -> float:
    """The fraction of the payload that crosses each link when nothing is sent twice, as nccl-tests counts it.

    An all-reduce is a reduce-scatter and an all-gather, each (N−1)/N of the payload.
    """
    if operation in ("broadcast", "reduce"):
        return 1.0
    return (2 if operation == "all-reduce" else 1) * (size - 1) / size


def all_reduce(size: int, count: float) -> Traffic:
    """By ring: every rank sends and receives the same."""
    each = link_share("all-reduce", size) * count
    return Traffic(each, each)


def gather(rank: int, size: int, count: float) -> Traffic:
    """To rank 0."""
    return Traffic(0, (size - 1) * count) if rank == 0 else Traffic(count, 0)


def scatter(rank: int, size: int, count: float) -> Traffic:
    """From rank 0."""
    return Traffic((size - 1) * count, 0) if rank == 0 else Traffic(0, count)


def reduce(rank: int, size: int, count: float) -> Traffic:
    """To rank 0, as gloo does it: a ring leaves each rank with the sum of one piece, which it hands to rank 0."""
    ring, piece = (size - 1) / size * count, count / size
    return Traffic(ring, ring + (size - 1) * piece) if rank == 0 else Traffic(ring + piece, ring)


def broadcast(rank: int, size: int, count: float) -> Traffic:
    """From rank 0 down a binomial tree, as gloo does it: in round i the first 2^i ranks each send 2^i further."""
    rounds = (size - 1).bit_length()
    children = sum(rank < 1 << i and rank + (1 << i) < size for i in range(rounds))
    return Traffic(children * count, 0 if rank == 0 else count)
