"""Every gradient is gathered on rank 0, averaged there and scattered back (part 2a of the VGG-11 reports)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.optim import Optimizer

from gradsync.comm import Traffic, cost
from gradsync.strategies.base import Strategy


class GatherScatter(Strategy):
    """Per parameter, in the order of the model:

    1. gather all ranks' gradients on rank 0;
    2. rank 0 averages them;
    3. scatter: every rank receives the average.

    Cost per step: two collectives per parameter; (N−1)·S bytes each way at rank 0, S each way elsewhere.
    """

    def attach(self, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        self._inbox: Tensor | None = None  # rank 0's receive buffer, a row per rank, kept between gradients
        return super().attach(model, optimizer)

    def agree(self) -> None:
        gradients = self.gradients()
        if self.comm.size == 1:
            return
        if self.comm.rank != 0:
            for gradient in gradients:
                self.comm.gather(gradient, None)
                self.comm.scatter(gradient, None)
            return
        for gradient in gradients:
            rows = self._rows(gradient)
            self.comm.gather(gradient, rows)
            mean = rows.sum(0).div_(self.comm.size)
            self.comm.scatter(gradient, [mean] * self.comm.size)

    def gradient_traffic(self, count: int) -> Traffic:
        here = (self.comm.rank, self.comm.size, count)
        return cost.gather(*here) + cost.scatter(*here)

    def _rows(self, gradient: Tensor) -> Tensor:
        needed = self.comm.size * gradient.numel()
        if self._inbox is None or self._inbox.numel() < needed or self._inbox.dtype != gradient.dtype:
            self._inbox = gradient.new_empty(needed)
        return self._inbox[:needed].view(self.comm.size, -1)
