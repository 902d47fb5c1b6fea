from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradsync.errors import InputError
from gradsync.rank.slurm_step import meeting_place, port, tasks_per_node
from gradsync.rank.world import World, choose_backend, choose_device, current, discover


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
    with pytest.raises(InputError, match="RANK is set without WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE"):
        discover({"RANK": "0"})


SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2),2",
}


def test_srun_tells_rank_and_size_and_how_many_are_on_each_node():
    assert discover(SLURM) == World(3, 4, 0, 2, "slurm")
    older = SLURM | {"SLURM_TASKS_PER_NODE": SLURM["SLURM_STEP_TASKS_PER_NODE"], "SLURM_STEP_TASKS_PER_NODE": ""}
    assert discover(older) == World(3, 4, 0, 2, "slurm")


def test_a_batch_script_is_not_a_task_of_a_step():
    without = {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"}
    assert discover(without) == World()
    for special in ("batch", str(0xFFFFFFFB), ""):  # the batch script and an interactive shell in newer Slurms
        assert discover(SLURM | {"SLURM_STEP_ID": special}) == World()


def test_the_first_launcher_that_tells_everything_counts():
    pmi2 = {"PMI_RANK": "3", "PMI_SIZE": "4"}
    assert discover(SLURM | pmi2).launcher == "slurm"  # srun --mpi=pmi2
    mpiexec = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    assert discover(SLURM | mpiexec) == World(1, 2, 1, 2, "mpich")  # inside a Slurm job
    assert discover(SLURM | {"RANK": "3", "WORLD_SIZE": "4"}).launcher == "slurm"


def test_what_slurm_has_left_out_is_named():
    with pytest.raises(InputError, match=r"SLURM_PROCID is set without SLURM_NTASKS: start the .* with slurm"):
        discover({name: value for name, value in SLURM.items() if name != "SLURM_NTASKS"})
    with pytest.raises(InputError, match="but Slurm's tasks per node are '2'"):
        discover(SLURM | {"SLURM_STEP_TASKS_PER_NODE": "2"})


def test_rank_and_size_alone_are_enough():
    plain = {"RANK": "1", "WORLD_SIZE": "3"}
    assert discover(plain) == World(1, 3, 0, 1, "environment")
    assert discover(plain | {"MASTER_ADDR": "127.0.0.1"}) == World(1, 3, 1, 3, "environment")
    assert discover(plain | {"LOCAL_RANK": "1"}) == World(1, 3, 1, 1, "environment")


def as_slurm_writes(counts: list[int]) -> str:
    parts = []
    for count, same in groupby(counts):
        times = len(list(same))
        parts.append(f"{count}(x{times})" if times > 1 else str(count))
    return ",".join(parts)


@given(st.lists(st.integers(1, 128), min_size=1, max_size=30))
def test_tasks_per_node_are_read_as_slurm_writes_them(counts: list[int]):
    assert tasks_per_node(as_slurm_writes(counts)) == counts


@pytest.mark.parametrize("text", ["", "2(x", "two", "2(3)", "1,,2"])
def test_tasks_per_node_that_make_no_sense_are_refused(text: str):
    with pytest.raises(InputError, match="must read like"):
        tasks_per_node(text)


def test_all_tasks_meet_on_the_first_node(monkeypatch: pytest.MonkeyPatch):
    answers = {"hostnames": "node3\nnode4\n", "node": "NodeName=node3 NodeAddr=10.0.0.3 NodeHostName=c3"}
    monkeypatch.setattr("gradsync.rank.slurm_step.scontrol", lambda _, what, name: answers[what])
    environment = SLURM | {"SLURM_STEP_NODELIST": "node[3-4]"}
    assert meeting_place(environment) == {"MASTER_ADDR": "10.0.0.3", "MASTER_PORT": str(port(7, 0))}


@given(st.integers(1, 10**8), st.integers(0, 1000))
def test_the_port_is_one_the_kernel_does_not_hand_out(job: int, step: int):
    assert 10_000 <= port(job, step) < 30_000
    assert port(job, step) != port(job, step + 1)


def test_a_machine_without_scontrol_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"scontrol show hostnames node\[3-4\] failed .* HINT: set MASTER_ADDR"):
        meeting_place(SLURM | {"SLURM_STEP_NODELIST": "node[3-4]"})


def test_a_node_of_slurm_is_called_as_slurm_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLURMD_NODENAME", "node3")
    assert World(launcher="slurm").node == "node3"
    assert World().node != "node3"  # a process of another launcher, within a job


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
