"""Collectives over torch.distributed: gloo on CPUs, NCCL on GPUs.

Every tensor handed in is dense memory: it travels as one flat block, whatever its strides (channels-last
gradients are not contiguous). With one process nothing is called at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


class TorchComm:
    """One rank's end of the process group."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size

    def all_reduce(self, tensor: Tensor) -> None:
        """In place: the sum over all ranks, on every rank."""
        if self.size > 1:
            dist.all_reduce(flat(tensor))

    def broadcast(self, tensor: Tensor, source: int = 0) -> None:
        """In place: what ``source`` holds, on every rank."""
        if self.size > 1:
            dist.broadcast(flat(tensor), src=source)

    def gather(self, tensor: Tensor, into: Sequence[Tensor] | None, target: int = 0) -> None:
        """Rank r's tensor lands in ``into[r]`` on ``target``; the other ranks pass None."""
        if self.size > 1:
            dist.gather(flat(tensor), [flat(item) for item in into] if into is not None else None, dst=target)

    def scatter(self, tensor: Tensor, parts: Sequence[Tensor] | None, source: int = 0) -> None:
        """In place: rank r receives ``parts[r]`` of ``source``; the other ranks pass None."""
        if self.size > 1:
            dist.scatter(flat(tensor), [flat(item) for item in parts] if parts is not None else None, src=source)


def flat(tensor: Tensor) -> Tensor:
    """The memory of a dense tensor as one dimension, without a copy."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    assert tensor.numel() == 1 + sum(
        (n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ), "only dense tensors can travel without a copy"
    return torch.as_strided(tensor, (tensor.numel(),), (1,))
