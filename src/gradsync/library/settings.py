"""The settings of a run that is not ours: what can be seen of the user's own script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import torch

from gradsync.config import Resolved, RunConfig, resolve
from gradsync.library.sync import Sync
from gradsync.strategies import Strategy, facts_of

PRECISIONS: dict[torch.dtype, Literal["fp64", "fp32", "bf16"]] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
}


def settings_of(
    sync: Sync, folder: Path, kind: type[Strategy], name: str, *, over_mpi: bool, replicas: int, sync_bn: bool
) -> Resolved:
    """The size of the batch is set when the first one is seen."""
    parameter = next(sync.model.parameters())
    group = sync.optimizer.param_groups[0]
    workers = max(sync.size, replicas)
    asked = RunConfig(
        model=type(sync.model).__name__,
        data=Path(sys.argv[0]).name or "interactive",
        strategy=name,
        workers=workers,
        batch_size=workers,
        transport="mpi" if over_mpi else "auto",
        device="cuda" if parameter.is_cuda else "cpu",
        precision=PRECISIONS.get(parameter.dtype, "fp32"),
        optimizer=type(sync.optimizer).__name__.lower(),
        lr=float(group["lr"]),
        weight_decay=float(group.get("weight_decay", 0.0)),
        threads=torch.get_num_threads(),
        buffers=sync.strategy.buffers,
        sync_bn=sync_bn,
        metric=("none",),
        eval=False,
        out=str(folder.parent),
    )
    return resolve(asked, facts_of(kind))
