"""The small message at the start of a step; what it makes possible is in strategies/test_own_loop_integration.py."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.futures import Future

from gradsync.comm import TorchComm
from gradsync.errors import InputError
from gradsync.library.uneven import Presence, code_of, parts_of, rates_of


class Model:
    """An attached model of which nothing is asked."""

    update_sends = True

    def __init__(self, lr: float = 0.1) -> None:
        self.optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr)

    def contribute(self, present: list[int], *, sent: bool) -> None: ...

    def rest(self) -> None: ...

    def catch_up(self, *_: object) -> None: ...


@pytest.fixture(autouse=True)
def no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TorchComm, "on_host", lambda comm: comm)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """What was sent by the first of two ranks; the other one does the same, unless it is told here."""
    found: list[list[int]] = []

    def all_reduce_later(comm: TorchComm, values: Tensor, kind: str) -> Future[Tensor]:
        found.append(values.tolist())
        values[1] = values[0]
        future: Future[Tensor] = Future()
        future.set_result(values)
        return future

    monkeypatch.setattr(TorchComm, "all_reduce_later", all_reduce_later)
    return found


@pytest.mark.parametrize("number", [1, 2**31 - 1])
@pytest.mark.parametrize("update", [False, True])
@pytest.mark.parametrize("rates", [0, 2**30 - 1])
def test_a_code_says_which_model_and_what_and_fits_into_a_message(number: int, update: bool, rates: int):
    code = code_of(number, update, rates)
    assert parts_of(code) == (number, update, rates)
    assert 0 < code < 2**63


def test_learning_rates_that_are_equal_have_one_number():
    assert rates_of(Model(0.1).optimizer) == rates_of(Model(0.1).optimizer)
    assert rates_of(Model(0.1).optimizer) != rates_of(Model(0.1 + 1e-17 + 1e-9).optimizer)
    on_device = torch.optim.SGD(nn.Linear(1, 1).parameters(), torch.tensor(0.1))
    assert rates_of(on_device) == rates_of(torch.optim.SGD(nn.Linear(1, 1).parameters(), torch.tensor(0.2)))


def test_a_step_has_one_message_however_often_it_begins(sent: list[list[int]]):
    presence = Presence(TorchComm(0, 2))
    model = Model()
    number = presence.add(model)
    for _ in range(3):
        presence.begin(number)
        presence.begin(number)
        assert presence.settle(number) == [0, 1]
        presence.begin_update(number)
    assert len(sent) == 3


def test_with_several_models_an_update_that_sends_is_announced(sent: list[list[int]]):
    presence = Presence(TorchComm(0, 2))
    models = [Model(), Model()]
    numbers = [presence.add(model) for model in models]
    models[1].update_sends = False
    for number in numbers:
        presence.begin(number)
        presence.settle(number)
        presence.begin_update(number)
    assert [parts_of(code)[:2] for code, _ in sent] == [(1, False), (1, True), (2, False)]
    presence.remove(numbers[1])
    presence.begin_update(numbers[0])
    assert len(sent) == 3


def test_different_learning_rates_or_models_are_refused(monkeypatch: pytest.MonkeyPatch):
    presence = Presence(TorchComm(0, 2))
    model = Model()
    number = presence.add(model)
    code = code_of(number, False, rates_of(model.optimizer))
    for other, message in ((code ^ 1 << 40, "different learning rates"), (code + 2, "step different models")):
        future: Future[Tensor] = Future()
        future.set_result(torch.tensor([code, other]))
        monkeypatch.setattr(TorchComm, "all_reduce_later", lambda *_, result=future, **__: result)
        presence.begin(number)
        with pytest.raises(InputError, match=message):
            presence.settle(number)


def test_a_model_that_is_gone_on_a_rank_without_a_batch_is_named_in_a_sentence(monkeypatch: pytest.MonkeyPatch):
    presence = Presence(TorchComm(0, 2))
    future: Future[Tensor] = Future()
    future.set_result(torch.tensor([0, code_of(7, False, 0)]))
    monkeypatch.setattr(TorchComm, "all_reduce_later", lambda *_, **__: future)
    with pytest.raises(InputError, match="still trains a model that is gone here"):
        presence.wait_for_others()
