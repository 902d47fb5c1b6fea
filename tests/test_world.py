from __future__ import annotations

import pytest

from gradsync.errors import InputError
from gradsync.world import World, choose_device, discover


def test_a_process_nobody_launched_is_alone():
    assert discover({}) == World(rank=0, size=1)


def test_torchrun_tells_rank_and_size():
    environment = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert discover(environment) == World(rank=5, size=8, local_rank=1, local_size=4)


def test_half_an_environment_is_refused_with_what_is_missing():
    with pytest.raises(InputError, match="WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE is not"):
        discover({"RANK": "0"})


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match=r"no GPU here\. Use --device cpu or auto"):
        choose_device("cuda", World())
    assert choose_device("auto", World()).type == "cpu"
