"""Every gradient is summed by an all-reduce and divided by the number of workers (part 2b of the VGG-11 reports)."""

from __future__ import annotations

from gradsync.comm import Traffic, cost
from gradsync.strategies.base import Strategy


class AllReduce(Strategy):
    """Per parameter, in the order of the model:

    1. all-reduce the gradient (sum);
    2. divide by the number of workers.

    Cost per step: one collective per parameter; 2(N−1)/N · S bytes sent and received per rank with a ring.
    """

    def agree(self) -> None:
        for gradient in self.gradients():
            self.comm.all_reduce(gradient)
            gradient.div_(self.comm.size)

    def gradient_traffic(self, count: int) -> Traffic:
        return cost.all_reduce(self.comm.size, count)
