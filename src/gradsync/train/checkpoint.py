"""The trained model on disk, and its fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from gradsync.record.writing import whole_file


def save(model: nn.Module, path: Path) -> None:
    with whole_file(path) as file:
        torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, file)


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """A hash that is the same for two ranks only if they hold the same bits."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
