"""The settings of a run that is not ours: what can be seen of the user's own script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from gradsync.config import Resolved, RunConfig, resolve
from gradsync.strategies import Strategy, facts_of

if TYPE_CHECKING:
    from gradsync.library.sync import Sync

Precision = Literal["fp64", "fp32", "bf16", "fp16"]
PRECISIONS: dict[torch.dtype, Precision] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
}
WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}


def bare(model: nn.Module) -> nn.Module:
    """The model without what torch has wrapped around it."""
    while inner := getattr(model, WRAPPERS.get(type(model).__name__, ""), None):
        model = inner
    return model


def name_of(model: nn.Module) -> str:
    """FSDP changes the class of what it shards: FSDPNet is a Net."""
    kind = type(bare(model))
    return next((base.__name__ for base in kind.__mro__ if "FSDP" not in base.__name__), kind.__name__)


def precision_of(model: nn.Module) -> Precision:
    """Asked when the model is called: that of autocast in its block, otherwise that of the parameters."""
    parameter = next(model.parameters())
    kind = parameter.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else parameter.dtype
    return PRECISIONS.get(dtype, "fp32")


def settings_of(
    sync: Sync, folder: Path, kind: type[Strategy], name: str, *, over_mpi: bool, replicas: int, sync_bn: bool
) -> Resolved:
    """The size of the batch and the precision are set when the first batch is seen."""
    parameter = next(sync.model.parameters())
    group = sync.optimizer.param_groups[0]
    workers = max(sync.size, replicas)
    asked = RunConfig(
        model=name_of(sync.model),
        data=Path(sys.argv[0]).name or "interactive",
        strategy=name,
        workers=workers,
        batch_size=workers,
        transport="mpi" if over_mpi else "auto",
        device="cuda" if parameter.is_cuda else "cpu",
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
