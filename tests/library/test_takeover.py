"""What a rank takes over from one that has made more steps; without processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR, LinearLR, LRScheduler, SequentialLR

from gradsync.comm import TorchComm
from gradsync.library.takeover import only_scaler, schedulers_of, take_over

SCALE, STEPS = 8.0, 3


class Sending(TorchComm):
    """Rank 0, which keeps what it sends; rank 1 receives it."""

    def __init__(self, rank: int, sent: list[Tensor]) -> None:
        super().__init__(rank, 2)
        self._sent = sent

    def broadcast(self, tensor: Tensor, source: int = 0, kind: Any = "parameters") -> None:
        if self.rank == source:
            self._sent.append(tensor.clone())
        else:
            tensor.copy_(self._sent.pop(0))


class Rank:
    def __init__(self, *, unpicklable: bool = False) -> None:
        self.model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=2)
        self.scheduler: LRScheduler = LinearLR(self.optimizer, total_iters=9)
        if unpicklable:
            self.scheduler.kept = lambda: None

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.scaler.scale(self.model(torch.randn(4, 3)).square().sum()).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
            self.scheduler.step()

    def state(self) -> list[Tensor]:
        kept = self.optimizer.state.values()
        found = [*self.model.state_dict().values(), *(value for one in kept for value in one.values())]
        return [*found, torch.tensor([self.rate, self.scaler.get_scale()])]

    @property
    def rate(self) -> float:
        return self.optimizer.param_groups[0]["lr"]


def taken_over(one: Rank, other: Rank) -> None:
    sent: list[Tensor] = []
    for number, rank in enumerate((one, other)):
        comm = Sending(number, sent)
        take_over(rank.model, rank.optimizer, rank.scaler, source=0, behind=number == 1, comm=comm)
    assert not sent


def equal(one: Iterable[Tensor], other: Iterable[Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_a_rank_without_any_step_goes_on_like_the_one_that_made_all():
    one, other = Rank(), Rank()
    one.train(STEPS)
    before = [tensor.clone() for tensor in one.state()]
    taken_over(one, other)
    assert equal(one.state(), other.state())
    assert equal(one.state(), before)
    assert one.scaler.get_scale() == 2 * SCALE
    for rank in (one, other):
        torch.manual_seed(1)
        rank.train(STEPS)
    assert equal(one.state(), other.state())


def test_a_scheduler_that_cannot_be_pickled_stays_behind_and_its_rate_does_not():
    one, other = Rank(unpicklable=True), Rank()
    one.train(STEPS)
    taken_over(one, other)
    assert other.rate == one.rate
    assert other.scheduler.last_epoch == 0


def test_schedulers_are_found_without_those_inside_others():
    rank, another = Rank(), Rank()
    parts: list[LRScheduler] = [LambdaLR(rank.optimizer, lambda step: 0.5), ExponentialLR(rank.optimizer, 0.9)]
    outer = SequentialLR(rank.optimizer, parts, milestones=[2])
    assert schedulers_of(rank.optimizer) == [rank.scheduler, outer]
    assert schedulers_of(another.optimizer) == [another.scheduler]


def test_the_scaler_of_a_rank_that_has_not_used_it_is_found_if_it_is_the_only_one():
    assert only_scaler() is None
    scaler = torch.amp.GradScaler("cpu")
    assert only_scaler() is scaler
    more = torch.amp.GradScaler("cpu")
    assert only_scaler() is None
    del more
