"""What can be seen of a script, as the settings of a run: its model, its optimizer, how its ranks agree."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradsync.config import Facts, Resolved, RunConfig, Shape, resolve
from gradsync.errors import InputError
from gradsync.library.settings import Precision, name_of

SHARDED = ("FullyShardedDataParallel", "FSDPModule")


def strategy_of(model: nn.Module, collectives: Iterable[Any], size: int) -> str:
    """How the ranks agree, as seen in the first step: DDP, or the operations on gradients in their order."""
    kinds = {base.__name__ for part in model.modules() for base in type(part).__mro__}
    if size == 1:
        return "local"
    if kinds & set(SHARDED):
        return "fsdp"
    if "DistributedDataParallel" in kinds:
        return "ddp"
    seen = dict.fromkeys(operation for operation, kind, *_ in collectives if kind == "gradients")
    return " + ".join(seen) or "none seen"


def settings_of(
    model: nn.Module, optimizer: Any, strategy: str, batch: int, precision: Precision, size: int, folder: Path
) -> Resolved:
    """A setting of the script that we have no name for is left out."""
    parameter = next(item for item in model.parameters() if item.requires_grad)
    group = optimizer.param_groups[0] if optimizer is not None else {}
    whole: dict[str, Any] = {
        "model": name_of(model),
        "data": Path(sys.argv[0]).name or "interactive",
        "strategy": strategy,
        "workers": size,
        "batch_size": max(batch, 1) * size,
        "eval": False,
        "out": str(folder.parent),
    }
    guessed: dict[str, Any] = {
        "device": "cuda" if parameter.is_cuda else "cpu" if parameter.device.type == "cpu" else "auto",
        "optimizer": type(optimizer).__name__.lower(),
        "lr": float(group.get("lr", 0.01)),
        "weight_decay": float(group.get("weight_decay", 0.0)),
        "threads": torch.get_num_threads(),
        **shape_of_cluster(),
    }
    for name, value in guessed.items():
        try:
            RunConfig(**whole, **{name: value})
        except InputError:
            continue
        whole[name] = value
    settings = resolve(RunConfig(**whole), Facts())
    settings.precision = settings.asked.precision = precision  # the script's: fp16 on a CPU is not refused
    return settings


def shape_of_cluster(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Of the emulated cluster this process is on, as ``gradsync cluster exec`` tells it."""
    known = {item.name for item in fields(Shape)}
    told = json.loads(environment.get("GRADSYNC_CLUSTER", "{}"))
    return {name: value for name, value in told.items() if name in known and value is not None}
