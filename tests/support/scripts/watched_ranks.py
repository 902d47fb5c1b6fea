"""A script of two ranks with the one line at its top; started by test_in_process_integration.

watched_ranks.py completes|fails
"""

from __future__ import annotations

import sys
import time

import gradsync

gradsync.watch(out="kept", name="mine")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

EPOCHS, BATCHES, BATCH = 3, 4, 3

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = TensorDataset(torch.randn(BATCHES * BATCH, 4), torch.randint(0, 2, (BATCHES * BATCH,)))
loader = DataLoader(samples, batch_size=BATCH, num_workers=1)  # a worker for each epoch, forked
for _ in range(EPOCHS):
    for inputs, labels in loader:
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
if sys.argv[1] == "fails":
    if rank == 1:
        raise ValueError("deliberate")
    time.sleep(100)  # until torchrun ends it with SIGTERM
print("the end of rank", rank, flush=True)
dist.destroy_process_group()
