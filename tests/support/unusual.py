"""What scripts also do, on two ranks of torchrun under watch. Each rank writes down what it has found."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

import gradsync

gradsync.watch()  # the command does it already
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(rank)
found: dict[str, object] = {}

# A hook registered before the first step, and one after it.
early, late = (DistributedDataParallel(nn.Linear(4, 2)) for _ in range(2))
early.register_comm_hook(None, fp16_compress_hook)
optimizer = torch.optim.SGD([*early.parameters(), *late.parameters()], lr=0.1)
alone = dist.new_group([0])
for step in range(8):
    if step == 4:
        late.register_comm_hook(None, fp16_compress_hook)
    optimizer.zero_grad()
    loss = (early(torch.ones(3, 4) * rank) + late(torch.ones(3, 4) * rank)).square().sum()
    loss.backward()
    # In the background, waited for at once or never; of one rank only; to one another.
    flags = torch.ones(5)
    work = dist.all_reduce(flags, async_op=True)
    work.wait()
    found["sum"] = flags.tolist()
    dist.all_reduce(torch.ones(7), async_op=True)
    if rank == 0:
        dist.all_reduce(flags, group=alone)
    ours, theirs = torch.full((3,), float(rank)), torch.empty(3)
    for each in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, ours, 1 - rank), dist.P2POp(dist.irecv, theirs, 1 - rank)]
    ):
        each.wait()
    found["exchanged"] = theirs.tolist()
    everything: list[object] = [None, None]
    dist.all_gather_object(everything, {"rank": rank})
    found["objects"] = everything
    optimizer.step()
    with torch.no_grad():  # a test, after which rank 0 has something else to do
        if rank == 0:
            late(torch.ones(1, 4))
    dist.barrier()
parameters = [item.detach().clone() for item in (*early.parameters(), *late.parameters())]
for item in parameters:
    dist.all_reduce(item)
    item /= 2
ours = [*early.parameters(), *late.parameters()]
found["same"] = all(torch.equal(mean, own) for mean, own in zip(parameters, ours, strict=True))
Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(found))
os._exit(0)
