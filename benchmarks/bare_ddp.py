"""What people write by hand: VGG-11 under DistributedDataParallel, two processes, timed per step.

    python benchmarks/bare_ddp.py [--smoke]    about 15 s; expected: 0.3 to 0.5 s a step on two cores

overhead.py imports this script as the other half of its comparison.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from arguments import asked
from gradsync import data, models

MODEL, WORKERS, THREADS = "vgg11", 2, 1
SKIPPED = 1  # the first step warms up


def timed(steps: int, batch_size: int) -> list[float]:
    """Seconds of each step of rank 0 except the first."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(one_rank, (steps, batch_size, folder), WORKERS)
        return json.loads(Path(folder, "seconds.json").read_text())[SKIPPED:]


def one_rank(rank: int, steps: int, batch_size: int, folder: str) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(THREADS)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=WORKERS)
    torch.manual_seed(0)
    shape, classes = models.native_data(MODEL)
    model = models.build(MODEL, shape=shape, classes=classes).to(memory_format=torch.channels_last)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    train = data.load("synthetic", native=(shape, classes)).train
    images, labels = train.batch(torch.arange(len(train)))  # all of it ready in memory: no data loading at all

    share = batch_size // WORKERS
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
        Path(folder, "seconds.json").write_text(json.dumps(seconds))
    dist.barrier()
    os._exit(0)  # gloo's threads may abort a process that exits normally


def main() -> None:
    given = asked(__doc__, steps=(16, 3), batch_size=(64, 4))
    seconds = timed(given.steps, given.batch_size)
    print(f"bare DDP, {WORKERS} processes: {statistics.median(seconds):.4f} s a step, median of {len(seconds)} steps")


if __name__ == "__main__":
    main()
