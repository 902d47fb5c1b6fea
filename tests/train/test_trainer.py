"""The training loop in this process: what the loss scaler of fp16 and clipping do to a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradsync.comm import TorchComm
from gradsync.config import RunConfig
from gradsync.data.loader import Loader
from gradsync.record import RankLog
from gradsync.strategies import attached, construct
from gradsync.train import optim
from gradsync.train.precision import PRECISIONS
from gradsync.train.task import make_task
from gradsync.train.trainer import Plan, train
from made_up import resolved

CPU = torch.device("cpu")
SMALL = 0.02  # so that no gradient overflows with the first scale, which would skip the update


def trained(folder: Path, precision: str, scale: float = 1.0, **settings: Any) -> tuple[nn.Module, list[float]]:
    """The model after two epochs, and the losses. ``scale``: of the targets."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    inputs = torch.randn(40, 4)
    samples = [(x, scale * x.sum()) for x in inputs]
    config = resolved(RunConfig(model="logistic", loss="mse", lr=0.05, batch_size=8, **settings))
    sync = construct("local", TorchComm(), None, {})
    attached(sync, model, optim.make(config, model))
    plan = Plan(
        **{"steps": 10, "task": make_task(config, CPU), "precision": PRECISIONS[precision], "device": CPU},
        **{"rank": 0, "size": 1, "keep_going": False, "accumulate": config.accumulate},
    )
    log = RankLog(folder, 0)
    train(sync, Loader(samples, batch_size=8), None, plan, log)
    log.close()
    rows = map(json.loads, (folder / "rank-0.jsonl").read_text().splitlines())
    return model, [row["loss"] for row in rows if row["kind"] == "step"]


@pytest.mark.parametrize(
    "settings", [{}, {"clip_norm": 0.02}, {"optimizer": "adamw", "clip_norm": 0.02}, {"accumulate": 2}]
)
def test_a_scaled_loss_gives_the_same_steps_and_the_same_record(tmp_path: Path, settings: dict[str, Any]):
    """adamw is fused, and would divide by the scale by itself, after clipping."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "scaled").mkdir()
    plain, losses = trained(tmp_path / "plain", "fp32", SMALL, **settings)
    scaled, same = trained(tmp_path / "scaled", "fp16", SMALL, **settings)
    assert same == pytest.approx(losses, rel=2e-2)
    assert min(same) < same[0]
    for one, other in zip(plain.parameters(), scaled.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=5e-3)


def test_clipping_keeps_a_step_small_however_large_the_gradient(tmp_path: Path):
    (tmp_path / "clipped").mkdir()
    torch.manual_seed(0)
    start = [
        item.detach().clone() for item in nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).parameters()
    ]
    model, _ = trained(tmp_path / "clipped", "fp32", scale=1e3, clip_norm=0.01, momentum=0.0, weight_decay=0.0)
    moved = torch.cat([(a - b).detach().flatten() for a, b in zip(start, model.parameters(), strict=True)]).norm()
    assert 0 < moved.item() <= 10 * 0.05 * 0.01 * 1.001
