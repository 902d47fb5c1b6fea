"""What people write by hand: VGG-11 under DistributedDataParallel, timed per step. Run by overhead.py."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from gradsync import models
from gradsync.data.synthetic import generate

steps, batch_size, threads = (int(value) for value in sys.argv[1:])
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
torch.set_num_threads(threads)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = models.build("vgg11", shape=(3, 32, 32), classes=10).to(memory_format=torch.channels_last)
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
train, _ = generate((3, 32, 32), 10, 0, None, None)
images, labels = train.batch(torch.arange(len(train)))  # all of it ready in memory: no data loading at all

share = batch_size // size
seconds = []
for step in range(steps):
    start = (step * batch_size + rank * share) % (len(train) - share)
    begin = time.perf_counter()
    optimizer.zero_grad()
    loss = cross_entropy(ddp(images[start : start + share]), labels[start : start + share])
    loss.backward()
    optimizer.step()
    loss.item()
    seconds.append(time.perf_counter() - begin)
if rank == 0:
    print(json.dumps(seconds), flush=True)
dist.barrier()
os._exit(0)
