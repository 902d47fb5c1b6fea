"""Number formats: what parameters and inputs are stored in, and what forward computes in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Precision:
    storage: torch.dtype
    autocast: torch.dtype | None = None
    scaled: bool = False
    """Whether gradients would be too small for its numbers unless the loss is scaled."""

    def forward(self, device: torch.device) -> AbstractContextManager[object]:
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(device.type, self.autocast)


PRECISIONS = {
    "fp64": Precision(torch.float64),
    "fp32": Precision(torch.float32),
    "bf16": Precision(torch.float32, autocast=torch.bfloat16),
    "fp16": Precision(torch.float32, autocast=torch.float16, scaled=True),
}
