"""BatchNorm over the global batch, on any device (torch's own SyncBatchNorm is for GPUs only).

1. Forward: each rank computes mean and variance of its share and contributes (n, n·mean, n·E[x²]) to one
   all-reduce; from the sums every rank computes the statistics of the global batch.
2. Backward: one all-reduce of (Σ dy, Σ dy·x̂) gives the gradient of the input over the global batch.
Cost: 2 messages per layer and step, of 2·C + 1 and 2·C numbers in float64.

With it, N workers compute what one worker computes, running statistics included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gradsync.comm import Comm, Traffic, cost


class SyncBatchNorm(_BatchNorm):
    """A BatchNorm layer over the batches of all ranks. Made by ``convert``; in evaluation it is plain BatchNorm."""

    def __init__(self, layer: _BatchNorm, comm: Comm) -> None:
        super().__init__(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
        self.comm = comm
        take_over(self, layer)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"BatchNorm takes at least 2 dimensions, got {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.comm.size == 1:
            return super().forward(input)
        self._check_input_dim(input)
        normalized, count, mean, variance = _Normalize.apply(input, self.eps, self.comm)
        self._track(count, mean, variance)
        if not self.affine:
            return normalized
        return normalized * per_channel(self.weight, input) + per_channel(self.bias, input)

    def traffic(self) -> Traffic:
        """Bytes of one forward and one backward in closed form."""
        numbers = (2 * self.num_features + 1) + 2 * self.num_features
        return cost.all_reduce(self.comm.size, numbers * torch.float64.itemsize)

    @torch.no_grad()
    def _track(self, count: Tensor, mean: Tensor, variance: Tensor) -> None:
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        share = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        unbiased = variance * (count / (count - 1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float, comm: Comm) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        others = [dim for dim in range(x.dim()) if dim != 1]
        wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
        variance, mean = torch.var_mean(wide, others, correction=0)
        count = x.numel() // x.shape[1]
        # Sums of squares lose digits in float32; these vectors are short, so float64 costs nothing.
        variance, mean = variance.double(), mean.double()
        sums = torch.cat([mean.new_tensor([count]), count * mean, count * (variance + mean**2)])
        comm.all_reduce(sums, kind="buffers")
        total = sums[0]
        mean, square = (sums[1:] / total).chunk(2)
        variance = square - mean**2
        scale = torch.rsqrt(variance + eps)
        normalized = (wide - per_channel(mean, wide)) * per_channel(scale, wide)
        ctx.comm, ctx.others, ctx.dtype = comm, others, x.dtype
        ctx.save_for_backward(normalized, scale, total)
        ctx.mark_non_differentiable(total, mean, variance)
        return normalized.to(x.dtype), total, mean, variance

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Any) -> tuple[Tensor, None, None]:
        normalized, scale, total = ctx.saved_tensors
        dy = dy.to(normalized.dtype)
        sums = torch.cat([dy.sum(ctx.others).double(), (dy * normalized).sum(ctx.others).double()])
        ctx.comm.all_reduce(sums, kind="buffers")
        mean_dy, mean_dy_x = (sums / total).chunk(2)
        inner = dy - per_channel(mean_dy, dy) - normalized * per_channel(mean_dy_x, dy)
        return (inner * per_channel(scale, dy)).to(ctx.dtype), None, None


def per_channel(vector: Tensor, like: Tensor) -> Tensor:
    return vector.to(like.dtype).view(1, -1, *[1] * (like.dim() - 2))


def convert(model: nn.Module, comm: Comm) -> tuple[nn.Module, Callable[[], None]]:
    """The model with every BatchNorm layer replaced, and the function that puts the layers back.

    Parameters and statistics stay the same objects. Only a model that is itself a BatchNorm layer is replaced.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    synchronized = {layer: SyncBatchNorm(layer, comm) for layer in layers}
    exchange(model, synchronized)

    def restore() -> None:
        for layer, replacement in synchronized.items():
            take_over(layer, replacement)
        exchange(model, {replacement: layer for layer, replacement in synchronized.items()})

    return synchronized.get(model, model), restore  # type: ignore[call-overload]


def exchange(model: nn.Module, layers: Mapping[Any, nn.Module]) -> None:
    """Replace these layers by others, wherever they occur in the model."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child in layers:
                setattr(parent, name, layers[child])


def take_over(layer: _BatchNorm, other: _BatchNorm) -> None:
    """Share the other layer's parameter and statistics objects: the optimizer holds references to them."""
    layer.weight, layer.bias = other.weight, other.bias
    layer.running_mean, layer.running_var = other.running_mean, other.running_var
    layer.num_batches_tracked = other.num_batches_tracked
    layer.training = other.training
