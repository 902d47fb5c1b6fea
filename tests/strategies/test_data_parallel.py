"""data-parallel whose replicas do not all use the same parameters; for all else, see test_own_loop_integration.py."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import gradsync
from gradsync.errors import InputError

INPUTS = torch.tensor([[1.0, 2.0], [2.0, 1.0], [-1.0, -2.0], [-3.0, 1.0]])


class Signed(nn.Module):
    """Positive first numbers go through one layer, negative ones through the other."""

    def __init__(self, first_used: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 1)])
        self._first_used = first_used

    def forward(self, inputs: Tensor) -> Tensor:
        chosen = self._first_used if inputs[0, 0] > 0 else 1 - self._first_used
        return self.layers[chosen](inputs)


def step(model: nn.Module, **more: object) -> gradsync.library.sync.Sync:
    optimizer = torch.optim.SGD(model.parameters(), 0.1, weight_decay=0.5)
    sync = gradsync.attach(model, optimizer, "data-parallel", replicas=2, **more)
    sync(INPUTS).square().mean().backward()
    return sync


@pytest.mark.parametrize("first_used", [0, 1])
def test_a_replica_that_does_not_use_a_parameter_counts_as_zero(first_used: int):
    model, alone = Signed(first_used), Signed(first_used)
    step(model, unused="zero").step()
    optimizer = torch.optim.SGD(alone.parameters(), 0.1, weight_decay=0.5)
    torch.cat([alone(INPUTS[:2]), alone(INPUTS[2:])]).square().mean().backward()
    optimizer.step()
    for parameter, other in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(parameter, other)


def test_otherwise_it_is_refused_like_a_rank_that_does_not():
    sync = step(Signed(0))
    with pytest.raises(InputError, match=r"parameter layers\.0\.weight got no gradient .* unused=.zero"):
        sync.step()


def test_what_is_frozen_after_attaching_gets_no_gradient_from_any_replica():
    model = nn.Linear(2, 1)
    with gradsync.attach(model, torch.optim.SGD(model.parameters(), 0.1), "data-parallel", replicas=2) as sync:
        model.bias.requires_grad_(False)
        sync(INPUTS).sum().backward()
        assert model.bias.grad is None and model.weight.grad is not None
