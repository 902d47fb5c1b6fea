"""The trained model on disk, and its fingerprint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn


def save(model: nn.Module, path: Path) -> None:
    """Written aside, then moved: a reader sees the whole file or none."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, aside)
    os.replace(aside, path)


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """The same for two ranks only if they hold the same bits."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
