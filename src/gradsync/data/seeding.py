"""Independent random streams from one seed: by name, so that no two uses share one by accident."""

from __future__ import annotations

import hashlib

import torch


def generator(seed: int, *names: str | int) -> torch.Generator:
    digest = hashlib.blake2b(repr((seed, *names)).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
