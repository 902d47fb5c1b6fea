"""Single pieces of training, without processes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from gradsync.config import RunConfig
from gradsync.data.batches import Layout
from gradsync.data.images import Images
from gradsync.data.loader import Loader
from gradsync.train import checkpoint, optim
from gradsync.train.evaluate import evaluate
from gradsync.train.precision import PRECISIONS
from gradsync.train.task import make_task
from made_up import resolved


@pytest.mark.parametrize("name", ["sgd", "adam"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_fused_update_is_the_textbook_one(name: str, layout: torch.memory_format):
    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(72, 2)).double().to(memory_format=layout)

    ours, plain = model(), model()
    settings = {"lr": 0.1, "weight_decay": 0.01}
    optimizers = [
        optim.make(resolved(RunConfig(optimizer=name, momentum=0.9, **settings)), ours),
        torch.optim.SGD(plain.parameters(), momentum=0.9, foreach=False, **settings)
        if name == "sgd"
        else torch.optim.Adam(plain.parameters(), foreach=False, **settings),
    ]
    for step in range(5):
        inputs = torch.randn(4, 3, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        for net, optimizer in zip((ours, plain), optimizers, strict=True):
            net(inputs).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_evaluation_of_shares_adds_up_to_the_whole():
    torch.manual_seed(0)
    images = Images(
        torch.randint(0, 256, (101, 2, 2, 1), dtype=torch.uint8), torch.randint(0, 3, (101,)), (0.5,), (0.5,)
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).double()

    def test(rank: int, size: int) -> dict:
        loader = Loader(images, batch_size=16, rank=rank, size=size, layout=Layout(torch.float64))
        task = make_task(resolved(RunConfig(metric=("accuracy", "perplexity"))), torch.device("cpu"))
        return dict(evaluate(model, loader, task, PRECISIONS["fp64"], torch.device("cpu")))

    whole, parts = test(0, 1), [test(rank, 3) for rank in range(3)]
    assert sum(part["count"] for part in parts) == whole["count"] == 101
    assert sum(part["sums"]["accuracy"] for part in parts) == whole["sums"]["accuracy"]
    assert sum(part["sums"]["perplexity"] for part in parts) == pytest.approx(whole["loss_sum"], rel=1e-12)
    assert sum(part["loss_sum"] for part in parts) == pytest.approx(whole["loss_sum"], rel=1e-12)


def test_a_fingerprint_tells_one_bit():
    tensor = torch.zeros(4, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    before = checkpoint.fingerprint([tensor, torch.tensor(1)])
    assert before == checkpoint.fingerprint([tensor.clone(), torch.tensor(1)])
    tensor[1, 2, 1, 0] = 1e-45
    assert before != checkpoint.fingerprint([tensor, torch.tensor(1)])


def test_a_saved_model_loads_into_a_plain_one(tmp_path: Path):
    model = nn.Linear(2, 2)
    checkpoint.save(model, tmp_path / "model.pt")
    other = nn.Linear(2, 2)
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(model.weight, other.weight)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
