"""What Slurm is told and what its words mean, without Slurm."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch import start_of
from gradsync.launch.outcome import Outcome
from gradsync.launch.slurm import job as slurm
from gradsync.launch.slurm.end import ENDS, cancelled, exit_codes, outcome, told
from gradsync.launch.slurm.script import check_allocation, check_options, nodes_needed, script, srun, tasks_on_a_node
from gradsync.library.runs.check import check
from gradsync.record import RankLog
from made_up import resolved, step_row

GOLDEN = Path(__file__).parent / "golden" / "slurm.sbatch"

# What srun really said when rank 2 was killed.
KILLED = """\
srun: error: node2: task 2: Killed
srun: launch/slurm: _step_signal: Terminating StepId=9.0
slurmstepd-node1: error: *** STEP 9.0 ON node1 CANCELLED AT 2026-11-16T17:12:19 ***
srun: error: node2: task 3: Exited with exit code 1
srun: error: node1: tasks 0-1: Terminated
"""
CANCELLED = """\
srun: Job step aborted: Waiting up to 4 seconds for job step to finish.
slurmstepd-node1: error: *** STEP 3.0 ON node1 CANCELLED AT 2026-11-16T16:57:23 ***
srun: error: node2: tasks 2-3: Terminated
"""


def slurm_config(**settings: object) -> RunConfig:
    base = {"launcher": "slurm", "nodes": 2, "workers_per_node": 2, "batch_size": 24, "remote_python": "/env/python"}
    return resolved(RunConfig(**base | settings))


def test_the_script():
    config = slurm_config(
        threads=8, partition="gpu", account="team", time="01:30:00", sbatch=("gres=gpu:2", "comment=two words")
    )
    folder, start_in = Path("/shared/runs/20260101-120000-logistic-ddp-4w"), Path("/shared")
    found = script(config, [folder], "worker", {"OMP_NUM_THREADS": "8"}, start_in)
    assert found == GOLDEN.read_text()


TEXT = st.text(st.one_of(st.sampled_from("\n\r\x85\u2028 '\"$;#a"), st.characters(codec="utf-8")), max_size=30)


@given(where=st.sampled_from(["partition", "account", "time", "sbatch", "remote_python"]), text=TEXT, folders=TEXT)
def test_nothing_that_is_typed_becomes_a_line_of_the_script(where: str, text: str, folders: str):
    """Every line is one of ours, or a comment for sbatch, whatever the flags, the folders and their names are."""
    ours = ("export OMP_NUM_THREADS=", "if [ -e ", "srun ", "#SBATCH ", "#!/bin/bash")
    base = Path("/base") / folders.replace("/", "-").replace("\0", "")
    try:
        config = slurm_config(**{where: (f"comment={text}",) if where == "sbatch" else text})
        found = script(config, [base / "run"], "worker", {"OMP_NUM_THREADS": "8"}, base)
    except InputError as error:
        assert "it must be plain text" in str(error)  # noqa: PT017
        return
    lines = found.split("\n")  # as the shell does
    assert all(not line or line.startswith(ours) for line in lines)
    assert [sum(line.startswith(word) for line in lines) for word in ours[:3]] == [1, 1, 1]


@pytest.mark.parametrize("flag", ["partition", "account", "time", "sbatch", "remote_python", "out", "hosts"])
def test_a_line_break_is_refused(flag: str):
    text = "a\nrm -rf ~"
    with pytest.raises(InputError, match="with a control character"):
        slurm_config(**{flag: (text,) if flag in ("sbatch", "hosts") else text})


def test_a_folder_with_a_line_break_is_refused_and_the_job_name_is_plain():
    with pytest.raises(InputError, match=r"the text for the Slurm script is .* with a control character"):
        script(slurm_config(), [Path("/a/run")], "worker", {}, Path("/a\nrm"))
    found = script(slurm_config(), [Path("/a/my run; ls")], "worker", {}, Path("/a"))
    assert "#SBATCH --job-name=gradsync-my-run-ls\n" in found


def test_mpi_needs_a_word_for_srun():
    words = srun(slurm_config(transport="mpi"), [Path("/a"), Path("/b")], "worker")
    assert "--mpi=pmi2" in words
    assert words[-7:] == ["/env/python", "-u", "-m", "gradsync.rank", "worker", "/a", "/b"]
    assert srun(slurm_config(remote_python=None), [Path("/a")], "m")[3] == sys.executable


def test_nodes_times_workers_on_each_are_the_workers_and_agree_by_ddp():
    config = slurm_config(nodes=3)
    assert (config.workers, config.strategy, config.threads) == (6, "ddp", 1)
    assert slurm_config(nodes=1, workers_per_node=1).strategy == "local"


@given(nodes=st.integers(1, 9), each=st.integers(1, 9), servers=st.integers(0, 5))
def test_every_process_finds_a_place(nodes: int, each: int, servers: int):
    strategy = "ps-sync" if servers else "all-reduce"
    config = slurm_config(
        nodes=nodes, workers_per_node=each, batch_size=nodes * each, servers=servers or None, strategy=strategy
    )
    assert nodes_needed(config) <= nodes
    assert nodes_needed(config) * tasks_on_a_node(config) >= config.processes
    if not servers:
        assert (nodes_needed(config), tasks_on_a_node(config)) == (nodes, each)


def test_runs_that_need_different_jobs_are_kept_apart():
    config = slurm_config()
    assert start_of(config) == start_of(replace(config, strategy="all-reduce", seed=3))
    for change in ({"time": "10"}, {"sbatch": ("exclusive",)}, {"threads": 2}, {"nodes": 4, "workers_per_node": 1}):
        assert start_of(config) != start_of(replace(config, **change))


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("nodes=3", "use --nodes"),
        ("--output=x", "gradsync sets it"),
        ("a\nrm", "a control character"),
        ("-N 3", "must read"),
    ],
)
def test_options_that_would_contradict_ours_are_refused(option: str, sentence: str):
    with pytest.raises(InputError, match=sentence):
        check_options(slurm_config(sbatch=(option,)))


@pytest.mark.parametrize(
    ("settings", "environment", "sentence"),
    [
        ({}, {"SLURM_NTASKS": "3"}, r"has 4 ranks, but SLURM_NTASKS of the allocation 7 .* is 3\. HINT"),
        ({}, {"SLURM_JOB_NUM_NODES": "1"}, r"for 2 nodes, but the allocation 7 you are in has 1\. HINT"),
        (
            {"partition": "gpu"},
            {},
            r"you set --partition for a new Slurm job, but are inside the allocation 7\. HINT",
        ),
    ],
)
def test_what_contradicts_the_allocation_is_refused(settings: dict, environment: dict, sentence: str):
    with pytest.raises(InputError, match=sentence):
        check_allocation(slurm_config(**settings), {"SLURM_JOB_ID": "7", **environment})


def test_an_allocation_that_fits_is_used_also_for_one_process():
    environment = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2"}
    check_allocation(slurm_config(), environment)
    check_allocation(slurm_config(strategy="local"), environment)
    check_allocation(slurm_config(), {"SLURM_JOB_ID": "7"})


def test_a_machine_without_slurm_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"cannot find sbatch or scontrol or scancel on PATH\. HINT"):
        slurm.check(slurm_config(), {})
    with pytest.raises(InputError, match="cannot find srun"):
        slurm.check(slurm_config(), {"SLURM_JOB_ID": "7"})


def test_the_nodes_may_have_what_this_machine_has_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    settings = {"model": "logistic", "device": "cuda", "workers": 2, "batch_size": 24}
    check([RunConfig(**settings, launcher="slurm")], to_start=False)
    with pytest.raises(InputError, match="no GPU here"):
        check([RunConfig(**settings)])


def test_who_failed_by_itself_is_told_from_who_was_ended():
    assert exit_codes(KILLED) == {2: -9}
    assert exit_codes("srun: error: a: tasks 0,2-3: Exited with exit code 3") == {0: 3, 2: 3, 3: 3}
    assert exit_codes("srun: error: a: task 1: Segmentation fault (core dumped)") == {1: -11}
    assert cancelled(KILLED) is None
    assert cancelled(CANCELLED) == "CANCELLED"
    assert cancelled("slurmstepd: error: *** JOB 5 ON a CANCELLED AT 2026 DUE TO TIME LIMIT ***") == "TIMEOUT"


def folder_with(tmp_path: Path, *, steps: int, log: str = "", end: bool = False) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "slurm.log").write_text(log)
    rank = RankLog(tmp_path, 0)
    for step in range(1, 1 + steps):
        rank.write(**step_row(step))
    if end:
        rank.write("end", time=0.0)
    rank.close()
    return tmp_path


@pytest.mark.parametrize("state", sorted(set(ENDS) - {"COMPLETED", "FAILED"}))
def test_every_end_of_a_job_is_a_sentence(tmp_path: Path, state: str):
    found = outcome("12", state, [folder_with(tmp_path, steps=7)], 1)
    assert str(found.failure).startswith(f"the Slurm job 12 {ENDS[state]} after 7 steps")


def test_a_job_that_ended_well_or_failed_is_judged_by_its_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gradsync.launch.slurm.end.SHARED_SECONDS", 0)
    folder = folder_with(tmp_path, steps=1, end=True, log=KILLED)
    assert outcome("12", "COMPLETED", [folder], 1) == Outcome()
    assert "1 rank (1) left no complete record. HINT" in str(outcome("12", "COMPLETED", [folder], 2).failure)
    assert outcome("12", "FAILED", [folder], 1).exit_codes == {2: -9}


def test_a_job_that_started_nothing_and_a_step_that_was_cancelled(tmp_path: Path):
    (tmp_path / "nothing").mkdir()
    assert "job 12 started nothing: it does not" in str(outcome("12", "FAILED", [tmp_path / "nothing"], 1).failure)
    folder = folder_with(tmp_path, steps=2, log=CANCELLED)
    assert str(outcome("12", "FAILED", [folder], 1).failure) == "the Slurm job 12 was cancelled after 2 steps"
    assert str(told(folder).failure) == "the Slurm job 3 was cancelled after 2 steps"
