"""On three ranks, where 1/N is not exact: DDP averages without us, and then under watch, in each way it knows.

Before that, what Lightning does in every step: the optimizer calls forward and backward as its closure. And messages
that have no stamps. Rank 0 prints what the final parameters were, as JSON.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
from functools import partial

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import gradsync

FLAGS = ("gradient_as_bucket_view", "set_to_none", "accumulate", "batched_grad_copy")
WAYS = [dict(zip(FLAGS, flags, strict=True)) for flags in itertools.product((False, True), repeat=len(FLAGS))]
BATCH, CLOSURES, OF_LBFGS = 4, 3, 2
SIZES = (7, 13, 5)


def hashed(model):
    return hashlib.sha256(b"".join(item.detach().numpy().tobytes() for item in model.parameters())).hexdigest()


class Net(nn.Module):
    def __init__(self, recomputed=False):
        super().__init__()
        self.recomputed = recomputed
        self.first, self.last = nn.Linear(*SIZES[:2]), nn.Linear(*SIZES[1:])

    def forward(self, inputs):
        hidden = self.first(inputs).tanh()
        return checkpoint(self.last, hidden, use_reentrant=True) if self.recomputed else self.last(hidden)


def wrapped(net, **flags):
    return DistributedDataParallel(net, bucket_cap_mb=0.0003, **flags)  # a bucket for every parameter or two


def averaged(gradient_as_bucket_view, set_to_none, accumulate, batched_grad_copy):
    """The hash of a model that DDP has trained."""
    torch.manual_seed(0)
    net = Net()
    model = wrapped(net, gradient_as_bucket_view=gradient_as_bucket_view, batched_grad_copy=batched_grad_copy)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    own = torch.Generator().manual_seed(rank)
    for _ in range(4):
        if accumulate:
            with model.no_sync():
                model(torch.randn(BATCH, SIZES[0], generator=own)).square().sum().backward()
        model(torch.randn(BATCH, SIZES[0], generator=own)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none)
    return hashed(net)


def in_every_way():
    return [averaged(**way) for way in WAYS]


def with_closures():
    torch.manual_seed(0)
    model = wrapped(Net(recomputed=True))
    inputs = torch.randn(BATCH, SIZES[0])

    def closure(optimizer):
        optimizer.zero_grad()
        loss = model(inputs).square().sum()
        loss.backward()
        return loss

    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(CLOSURES):
        optimizer.step(partial(closure, optimizer))
    del optimizer
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    for _ in range(OF_LBFGS):
        functional.wait_tensor(functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD))
        dist.group.WORLD.allreduce([torch.ones(2)]).wait()
        optimizer.step(partial(closure, optimizer))


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    alone = in_every_way()
    gradsync.watch(out="runs", name="seen", report=False)
    with_closures()
    gc.collect()
    watched = in_every_way()
    if rank == 0:
        print(json.dumps({"ways": WAYS, "alone": alone, "watched": watched}))
    gc.collect()  # DDP goes before its group
    dist.destroy_process_group()
