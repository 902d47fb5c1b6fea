"""The model's graph as TensorBoard shows it, drawn once before training."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import torch
from torch import nn

from gradsync.data.batches import Batch


def write_graph(model: nn.Module, batch: Batch, folder: Path) -> None:
    """Trace a copy, so that the statistics and random numbers of the training stay as they are.

    The graph goes into a folder of its own, because TensorBoard reads only the newest file of a folder.
    """
    from torch.utils.tensorboard import SummaryWriter

    try:
        with torch.random.fork_rng(), SummaryWriter(str(folder / "tensorboard" / "model")) as writer:
            if isinstance(batch.inputs, dict):
                raise ValueError("its inputs are keywords")
            writer.add_graph(copy.deepcopy(model).eval(), batch.inputs)
    except Exception as error:  # a picture must not end a run
        print(f"the model cannot be drawn for TensorBoard: {error}", file=sys.stderr)
