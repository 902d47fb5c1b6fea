"""How far this rank's clock is from rank 0's, by ping-pong.

1. Rank 0 sends a ping to one rank after the other, ten times each.
2. The rank answers with the time on its clock.
3. The shortest round trip counts: the answer was written at some time between ping and pong, so the offset is that
   time minus the midpoint, with an error of at most half the round trip.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch

from gradsync.comm.base import Comm

ROUNDS = 10
FEW_ROUNDS = 5


@dataclass(frozen=True)
class ClockOffset:
    """This rank's clock minus rank 0's, in seconds, the bound of its error, and the time by this clock."""

    offset: float = 0.0
    bound: float = 0.0
    time: float = field(default_factory=time.monotonic)


def measure_offset(comm: Comm, device: torch.device) -> ClockOffset:
    """Called by every rank at the same point of the program."""
    message = torch.zeros(2, dtype=torch.float64, device=comm.carrier(device))
    for peer in range(1, comm.size):
        if comm.rank == 0:
            best = min((ping(comm, message, peer) for _ in range(ROUNDS)), key=lambda found: found.bound)
            message.copy_(torch.tensor([best.offset, best.bound], dtype=torch.float64))
            comm.send(message, peer)
        elif comm.rank == peer:
            for _ in range(ROUNDS):
                pong(comm, message)
            comm.receive(message, 0)
            return ClockOffset(*message.tolist())
    return ClockOffset()


def round_trip(comm: Comm, device: torch.device) -> float | None:
    """The round-trip time to the next rank in seconds, the shortest of a few; every rank in turn, the last to rank 0.

    Called by every rank at the same point of the program. None for two ranks: they share one link, which
    cannot show whose end is slow.
    """
    if comm.size < 3:
        return None
    message = torch.zeros(2, dtype=torch.float64, device=comm.carrier(device))
    own = None
    for rank in range(comm.size):
        peer = (rank + 1) % comm.size
        for _ in range(FEW_ROUNDS):
            if comm.rank == rank:
                trip = 2 * ping(comm, message, peer).bound
                own = trip if own is None else min(own, trip)
            elif comm.rank == peer:
                pong(comm, message, rank)
    return own


def ping(comm: Comm, message: torch.Tensor, peer: int) -> ClockOffset:
    begin = time.monotonic()
    comm.send(message, peer)
    comm.receive(message, peer)
    answered = message[0].item()  # on a GPU this waits for the message
    end = time.monotonic()
    return ClockOffset(answered - (begin + end) / 2, (end - begin) / 2)


def pong(comm: Comm, message: torch.Tensor, peer: int = 0) -> None:
    comm.receive(message, peer)
    message[0].item()
    message[0] = time.monotonic()
    comm.send(message, peer)
