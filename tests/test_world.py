from __future__ import annotations

import pytest
import torch

from gradsync.errors import InputError
from gradsync.world import World, choose_backend, choose_device, current, discover


def test_a_process_nobody_launched_is_alone():
    assert discover({}) == World(rank=0, size=1)


def test_torchrun_tells_rank_and_size():
    environment = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert discover(environment) == World(rank=5, size=8, local_rank=1, local_size=4, launcher="torchrun")


def test_mpiexec_of_either_kind_tells_rank_and_size():
    mpich = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    assert discover(mpich) == World(1, 2, 1, 2, "mpich")
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    open_mpi = {f"OMPI_COMM_WORLD_{name}": value for name, value in zip(names, "1212", strict=True)}
    assert discover(open_mpi) == World(1, 2, 1, 2, "open mpi")


def test_half_an_environment_is_refused_with_what_is_missing():
    with pytest.raises(InputError, match="WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE is not"):
        discover({"RANK": "0"})


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match=r"no GPU here\. Use --device cpu or auto"):
        choose_device("cuda", World())
    assert choose_device("auto", World()).type == "cpu"


def test_gloo_on_cpus_nccl_where_every_rank_has_a_gpu_and_nothing_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    cpu, gpu = torch.device("cpu"), torch.device("cuda", 0)
    assert choose_backend(World(), cpu) is None
    assert choose_backend(World(size=2, local_size=2), cpu) == "gloo"
    assert choose_backend(World(size=2, local_size=2), gpu) == "nccl"
    assert choose_backend(World(size=3, local_size=3), gpu) == "gloo"


def test_a_group_the_user_has_made_counts_more_than_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_rank", lambda: 2)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 3)
    assert (current().rank, current().size) == (2, 3)
