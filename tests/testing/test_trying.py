"""A strategy in every training loop, in one process; and what an error means that not every rank has raised."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
from torch.futures import Future

from gradsync.comm import TorchComm
from gradsync.testing import trying
from gradsync.testing.trying import all_are_here, outcome, tried
from gradsync.testing.ways import CPU, PLAIN, WAYS, LeftOut, Script, alone

HERE = Script(alone, 2)


class Among(TorchComm):
    """One of two ranks, with an all-reduce whose result is given, or never comes."""

    _ends_on_host = True

    def __init__(self, total: float | None) -> None:
        super().__init__(0, 2)
        self.total = total

    def carrier(self, device: torch.device) -> torch.device:
        return device

    def _all_reduce_later(self, block: torch.Tensor) -> Future[Any]:
        answer: Future[Any] = Future()
        if self.total is not None:
            answer.set_result(block.fill_(self.total))
        return answer


@pytest.mark.parametrize(("total", "here"), [(2.0, True), (1.5, False), (None, False)])
def test_all_are_here_if_all_say_so_in_time(total: float | None, here: bool):
    assert all_are_here(Among(total), CPU, patience=0.05) is here


def raising(_: Script) -> list[torch.Tensor]:
    raise KeyError("momentum")


def test_an_error_of_all_ranks_is_what_was_found_and_one_of_this_rank_alone_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
):
    found = outcome("mine", raising, HERE, HERE, Among(2.0))
    assert found == {"distance": None, "error": "raised KeyError: 'momentum'", "left_out": ""}
    monkeypatch.setattr(trying, "PATIENCE", 0.05)
    with pytest.raises(RuntimeError, match='on this rank alone, the training loop "mine" raised KeyError'):
        outcome("mine", raising, HERE, HERE, Among(None))


def test_in_one_process_every_way_comes_to_the_same_bits():
    found = tried("local", buffers=None, options={}, workers=1, comm=TorchComm(), device=CPU, dtype=torch.float32)
    assert [(each["name"], each["distance"]) for each in found] == [(name, 0.0) for name in WAYS]


def test_without_a_compiler_one_way_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(LeftOut, match="needs a C compiler"):
        WAYS["torch.compile"](HERE)


def test_after_an_error_in_a_plain_loop_no_other_is_tried(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(WAYS, PLAIN, raising)
    (found,) = tried("local", buffers=None, options={}, workers=1, comm=TorchComm(), device=CPU, dtype=torch.float64)
    assert found["error"] == "raised KeyError: 'momentum'"
