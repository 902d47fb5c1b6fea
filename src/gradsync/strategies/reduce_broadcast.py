"""Every gradient summed on rank 0, averaged there, broadcast to all (the way of the seeds' MPI report)."""

from __future__ import annotations

from gradsync.comm import Traffic, cost
from gradsync.strategies.base import Strategy


class ReduceBroadcast(Strategy):
    """Per parameter, in the order of the model:

    1. reduce: the sum over all ranks lands on rank 0;
    2. rank 0 divides by the number of workers;
    3. broadcast: every rank receives the average.

    Cost per step: two collectives per parameter. Reduce as gloo does it, a ring and then the pieces to rank 0: S sent
    per rank, rank 0 (N−1)/N · S, which receives twice that; broadcast down a tree: S received per rank but rank 0.
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
