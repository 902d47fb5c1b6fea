"""Every gradient is summed on rank 0, averaged there and broadcast to all, as the MPI report does it."""

from __future__ import annotations

from gradsync.comm import Traffic, cost
from gradsync.strategies.base import Strategy


class ReduceBroadcast(Strategy):
    """Per parameter, in the order of the model:

    1. reduce: the sum over all ranks lands on rank 0;
    2. rank 0 divides by the number of workers;
    3. broadcast: every rank receives the average.

    Cost per step: two collectives per parameter. Gloo reduces around a ring and then collects the pieces on rank 0:
    every rank sends S, except rank 0, which sends (N−1)/N · S and receives twice that. The broadcast follows a tree:
    every rank except rank 0 receives S.
    """

    def agree(self) -> None:
        for gradient in self.gradients():
            self.comm.reduce(gradient)
            if self.comm.rank == 0:
                gradient.div_(self.comm.size)
            self.comm.broadcast(gradient, kind="gradients")

    def gradient_traffic(self, count: int) -> Traffic:
        here = (self.comm.rank, self.comm.size, count)
        return cost.reduce(*here) + cost.broadcast(*here)
