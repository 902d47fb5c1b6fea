"""A loop whose ranks have different numbers of batches, without anything of ours at its end; started by test_ending.

With torchrun the script makes the group itself; mpiexec makes none. It writes its weights into a file, as mpiexec may
lose what a process prints last.

out_of_batches.py FOLDER
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import gradsync

BATCHES = (9, 4)


def main() -> None:
    """What it attaches is a local variable, and gone when the script ends."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Linear(4, 2)

    @atexit.register  # registered before ours, and called after it
    def write() -> None:
        Path(sys.argv[1], str(os.getpid())).write_text(json.dumps(model.weight.tolist()))

    sync = gradsync.attach(model, torch.optim.SGD(model.parameters(), 0.1), "all-reduce")
    for _ in range(BATCHES[sync.rank]):
        sync(torch.randn(3, 4)).square().mean().backward()
        sync.step()


main()
