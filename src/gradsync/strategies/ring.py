"""The bandwidth-optimal all-reduce, built from sends and receives, with all gradients in one block."""

from __future__ import annotations

from torch import Tensor, nn
from torch.optim import Optimizer

from gradsync.comm import Traffic, cost
from gradsync.strategies.base import Strategy
from gradsync.strategies.gradients.packed import Packed, same_kind


class Ring(Strategy):
    """The block of all gradients, each multiplied by 1/N, is cut into N pieces. Rank r sends to r+1 and receives from
    r−1.

    1. Reduce-scatter, N−1 steps: in step k send piece r−k, receive piece r−k−1 and add it to this rank's own. Rank r
       ends up with the complete sum of piece r+1.
    2. All-gather, N−1 steps: in step k send piece r+1−k and receive piece r−k. Every rank ends up with every sum.

    Cost per step: 2(N−1) messages of S/N; 2(N−1)/N · S bytes sent and received per rank, the lower bound of any
    all-reduce. Every piece is summed in one order and then copied, so all ranks hold the same bits.
    """

    def attach(self, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        forward = super().attach(model, optimizer)
        self._blocks = [Packed(group) for group in same_kind([parameter for _, parameter in self._trainable])]
        return forward

    def agree(self) -> None:
        self.gradients()  # refuses parameters without one
        if self.comm.size == 1:
            return
        for packed in self._blocks:
            for parameter in packed.parameters:
                packed.take(parameter, 1.0 / self.comm.size)
            self._all_reduce(packed.block)
            packed.give_back()

    def _all_reduce(self, block: Tensor) -> None:
        rank, size = self.comm.rank, self.comm.size
        after, before = (rank + 1) % size, (rank - 1) % size
        pieces = block.tensor_split(size)
        inbox = block.new_empty(pieces[0].numel())  # the first pieces are the longest
        for step in range(size - 1):
            ours, theirs = pieces[(rank - step) % size], pieces[(rank - step - 1) % size]
            received = inbox[: theirs.numel()]
            self.comm.exchange(ours, after, received, before)
            theirs.add_(received)
        for step in range(size - 1):
            ours, theirs = pieces[(rank + 1 - step) % size], pieces[(rank - step) % size]
            self.comm.exchange(ours, after, theirs, before)

    def gradient_traffic(self, count: int) -> Traffic:
        return cost.all_reduce(self.comm.size, count)
