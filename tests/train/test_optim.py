"""Learning rates over a run, and LARS, without processes."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.train import optim
from gradsync.train.lars import LARS, TRUST
from gradsync.train.optim import learning_rate
from made_up import resolved


def rates(updates: int, updates_per_epoch: int = 10, **settings: object) -> list[float]:
    at = learning_rate(resolved(RunConfig(**settings)), updates, updates_per_epoch)
    return [at(update) for update in range(updates)]


def test_without_a_word_the_learning_rate_stays_as_it_is():
    assert rates(30, lr=0.3, workers=4) == [0.3] * 30


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1), ("linear", 4), ("sqrt", 2)])
def test_it_is_scaled_with_the_workers(scaling: str, factor: float):
    assert rates(5, lr=0.1, workers=4, lr_scaling=scaling) == pytest.approx([0.1 * factor] * 5)


@given(workers=st.integers(1, 8), epochs=st.integers(0, 4), scaling=st.sampled_from(["none", "linear", "sqrt"]))
def test_warming_up_climbs_in_equal_steps_to_the_full_rate_and_no_further(workers: int, epochs: int, scaling: str):
    found = rates(60, lr=0.1, workers=workers, batch_size=840, lr_scaling=scaling, warmup_epochs=epochs)
    peak = 0.1 * {"none": 1, "linear": workers, "sqrt": workers**0.5}[scaling]
    ramp = found[: epochs * 10 + 1]
    steps = [after - before for before, after in itertools.pairwise(ramp)]
    assert all(step >= 0 for step in steps)
    assert all(step == pytest.approx(steps[0]) for step in steps)
    assert found[epochs * 10 :] == pytest.approx([peak] * (60 - epochs * 10))
    if scaling != "none" and workers > 1 and epochs:
        assert 0.1 < found[0] < peak, "it begins with the rate of one worker, as Goyal et al. do"


def test_a_cosine_ends_near_nothing_and_a_step_falls_to_a_tenth():
    cosine = rates(100, lr=1.0, schedule="cosine", warmup_epochs=1)
    assert cosine[10] == 1.0
    assert cosine[55] == pytest.approx(0.5)
    assert cosine[-1] == pytest.approx((1 + math.cos(math.pi * 89 / 90)) / 2)
    step = rates(50, lr=1.0, schedule="step", decay_epochs=(2, 4))
    assert step == pytest.approx([1.0] * 20 + [0.1] * 20 + [0.01] * 10)


def test_large_batches_that_grow_with_the_workers_get_both_remedies_by_default():
    large = resolved(RunConfig(workers=4, batch_per_worker=512))
    assert (large.lr_scaling, large.lr_factor) == ("linear", 4)
    assert optim.warmup_updates(large, updates=1000, updates_per_epoch=20) == 100
    assert optim.warmup_updates(large, updates=40, updates_per_epoch=20) == 10, "at most a quarter of the run"
    for small in (RunConfig(workers=4, batch_per_worker=256), RunConfig(workers=4, batch_size=2048)):
        assert resolved(small).lr_factor == 1
        assert optim.warmup_updates(resolved(small), updates=1000, updates_per_epoch=20) == 0
    asked = resolved(RunConfig(workers=4, batch_per_worker=512, lr_scaling="none", warmup_epochs=0))
    assert (asked.lr_factor, asked.warmup_epochs) == (1, 0)


def test_the_optimizer_follows_the_plan_update_by_update():
    model = nn.Linear(1, 1, bias=False)
    config = resolved(RunConfig(lr=1.0, momentum=0.0, weight_decay=0.0, schedule="step", decay_epochs=(1,)))
    optimizer = optim.make(config, model, updates=4, updates_per_epoch=2)
    before = model.weight.item()
    moved = []
    for _ in range(4):
        model.weight.grad = torch.ones(1, 1)
        optimizer.step()
        moved.append(before - model.weight.item())
        before = model.weight.item()
    assert moved == pytest.approx([1.0, 1.0, 0.1, 0.1], abs=1e-6)


def test_gradients_are_clipped_to_the_norm_of_all_of_them_right_before_the_update():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    config = resolved(RunConfig(lr=1.0, momentum=0.0, weight_decay=0.0, clip_norm=0.5))
    optimizer = optim.make(config, model)
    before = [item.detach().clone() for item in model.parameters()]
    for size, moved in ((10.0, 0.5), (0.01, None)):
        for item in model.parameters():
            item.grad = torch.full_like(item, size)
        norm = torch.cat([item.grad.flatten() for item in model.parameters()]).norm().item()
        optimizer.step()
        steps = [(old - item.detach()).flatten() for old, item in zip(before, model.parameters(), strict=True)]
        assert torch.cat(steps).norm().item() == pytest.approx(moved or norm, rel=1e-5)
        before = [item.detach().clone() for item in model.parameters()]


OWN = """
import torch
def plain(parameters, lr): return torch.optim.SGD(parameters, lr=lr)
def number(parameters, lr): return 3
def breaks(parameters, lr): raise ValueError("no")
def needs_closure(parameters, lr): return torch.optim.LBFGS(parameters, lr=lr)
"""


def own(folder: Path, name: str, model: nn.Module) -> torch.optim.Optimizer:
    (folder / "own.py").write_text(OWN)
    return optim.make(resolved(RunConfig(optimizer=f"{folder / 'own.py'}:{name}", lr=0.5)), model)


def test_ones_own_optimizer_gets_what_is_trained_and_the_learning_rate(tmp_path: Path):
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    (group,) = own(tmp_path, "plain", model).param_groups
    assert (group["lr"], len(group["params"])) == (0.5, 1)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("number", "returned int: it must return an Optimizer"),
        ("breaks", 'raised an error:\n\n(.|\n)*own.py", line 5, in breaks'),
        ("needs_closure", "returned LBFGS, whose step needs a closure"),
    ],
)
def test_what_is_no_optimizer_is_refused(tmp_path: Path, name: str, sentence: str):
    with pytest.raises(InputError, match=sentence):
        own(tmp_path, name, nn.Linear(2, 2))


def test_gpt_has_an_optimizer_and_a_learning_rate_of_its_own():
    chosen = {name: resolved(RunConfig(model=name)) for name in ("gpt", "vgg11")}
    assert {name: (each.optimizer, each.lr) for name, each in chosen.items()} == {
        "gpt": ("adamw", 0.001),
        "vgg11": ("sgd", 0.01),
    }
    assert resolved(RunConfig(model="gpt", optimizer="sgd")).lr == 0.01


def test_lars_takes_a_step_in_proportion_to_the_size_of_the_layer():
    torch.manual_seed(0)
    layer = nn.Linear(5, 3)
    optimizer = LARS(layer.parameters(), lr=2.0, momentum=0.9, weight_decay=0.01)
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    momentum = torch.zeros_like(weight)
    bias_momentum = torch.zeros_like(bias)
    for seed in range(3):
        gradient = torch.randn(3, 5, generator=torch.Generator().manual_seed(seed))
        layer.weight.grad, layer.bias.grad = gradient.clone(), torch.ones(3)
        local = TRUST * weight.norm() / (gradient.norm() + 0.01 * weight.norm())
        momentum = 0.9 * momentum + local * (gradient + 0.01 * weight)
        weight = weight - 2.0 * momentum
        bias_momentum = 0.9 * bias_momentum + 1.0
        bias = bias - 2.0 * bias_momentum
        optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), weight)
    torch.testing.assert_close(layer.bias.detach(), bias)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"label_smoothing": 1.0}, "--label-smoothing is 1.0: it must be 0 or more, and less than 1"),
        ({"accumulate": 0}, "--accumulate is 0: it must be from 1 to 1,000,000"),
        ({"warmup_epochs": -1.0}, "--warmup-epochs is -1.0"),
        ({"schedule": "linear"}, "must be one of constant, cosine, step"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict, sentence: str):
    with pytest.raises(InputError, match=sentence):
        RunConfig(**settings)
