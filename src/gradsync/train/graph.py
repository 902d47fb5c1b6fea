"""The model's graph as TensorBoard shows it, drawn once before training."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import torch
from torch import Tensor, nn


def write_graph(model: nn.Module, inputs: Tensor, folder: Path) -> None:
    """Traces a copy: statistics and random numbers of the training stay as they are.

    In a folder of its own: TensorBoard reads the newest file of a folder and leaves older ones behind.
    """
    from torch.utils.tensorboard import SummaryWriter

    try:
        with torch.random.fork_rng(), SummaryWriter(str(folder / "tensorboard" / "model")) as writer:
            writer.add_graph(copy.deepcopy(model).eval(), inputs)
    except Exception as error:  # a picture is not worth a run
        print(f"the model cannot be drawn for TensorBoard: {error}", file=sys.stderr)
