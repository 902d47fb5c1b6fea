"""What every torchrun is told, what its report means, and how hosts are reached, without starting any."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch import printed
from gradsync.launch.mpi.mpiexec import command as mpiexec_command
from gradsync.launch.reach import HostUnreachable, Ssh, pipe
from gradsync.launch.torchrun import AgentFailed, agent_options, outcome, text
from made_up import resolved

REPORT = """
============================================================
gradsync.rank FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-16_17:37:17
  host      : node2
  rank      : 3 (local_rank: 1)
  exitcode  : 1 (pid: 4712)
  error_file: <N/A>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-16_17:37:17
  host      : node2
  rank      : 2 (local_rank: 0)
  exitcode  : -9 (pid: 4711)
  error_file: <N/A>
============================================================
"""


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_every_node_is_told_its_number_and_its_ranks(ranks_on_node: list[int]):
    places = [node for node, count in enumerate(ranks_on_node) for _ in range(count)]
    options = agent_options(places)
    assert options == [
        [f"--nnodes={len(ranks_on_node)}", f"--node-rank={node}", f"--nproc-per-node={count}"]
        for node, count in enumerate(ranks_on_node)
    ]


def test_ranks_that_torchrun_could_not_number_are_refused():
    config = resolved(RunConfig(strategy="ps-sync", hosts=("a", "b"), batch_size=4))
    assert config.places == [0, 1, 0]
    with pytest.raises(InputError, match="servers, which come last, must be on the last node"):
        agent_options(config.places)
    alone = resolved(RunConfig(strategy="ps-sync", hosts=("a", "b", "c"), workers=2, batch_size=4))
    assert agent_options(alone.places)[2] == ["--nnodes=3", "--node-rank=2", "--nproc-per-node=1"]


def test_what_the_report_of_a_torchrun_means(tmp_path: Path):
    (tmp_path / "one").write_text("all is well")
    (tmp_path / "two").write_text(REPORT)
    logs = [tmp_path / "one", tmp_path / "two"]
    assert outcome(["a", "b"], [0, 1], logs).exit_codes == {2: -9, 3: 1}
    silent = outcome(["a", "b"], [0, 255], [logs[0], tmp_path / "never written"])
    assert isinstance(silent.failure, AgentFailed)
    assert str(silent.failure) == "torchrun on b failed: it does not say why"
    words = outcome(["a"], [127], logs[:1]).failure
    assert str(words) == "torchrun on a failed: all is well"


def test_what_to_type_on_each_host_can_be_read():
    config = resolved(RunConfig(launcher="torchrun", hosts=("me@a", "b"), workers_per_node=2, threads=3))
    lines = text(config, Path("/shared/runs/x")).splitlines()
    assert lines[0] == "# on me@a:" and lines[2] == "# on b:"
    assert "OMP_NUM_THREADS=3 " in lines[1]
    assert "-m gradsync.launch.agent --nnodes=2 --node-rank=0 --nproc-per-node=2 --master-addr=a --m" in lines[1]
    assert lines[1].endswith(" -m gradsync.rank worker /shared/runs/x")
    assert lines[-1] == "gradsync finish /shared/runs/x"
    with pytest.raises(InputError, match="or say where: --hosts a,b"):
        printed(RunConfig(nodes=2))


def test_a_host_is_given_one_line_that_its_shell_reads_back():
    nodes = Ssh(resolved(RunConfig(hosts=("a", "me@b"), ssh="ssh -p 2222")))
    *start, line = nodes.command(1, ["python", "-c", "print('a b')"], {"X": "1 2"})
    assert start == ["ssh", "-p", "2222", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-tt", "me@b"]
    assert shlex.split(line.partition("exec ")[2]) == ["env", "X=1 2", "python", "-c", "print('a b')"]
    assert nodes.addresses == ["a", "b"]


def test_mpiexec_is_told_where_every_rank_goes():
    config = RunConfig(transport="mpi", hosts=("a", "b"), workers_per_node=2, mpiexec="env", batch_size=4)
    words = mpiexec_command(resolved(config), [Path("/runs/x")], hosts=config.hosts)
    assert words[:5] == ["env", "-host", "a:2,b:2", "-n", "4"]


def test_what_a_pipe_says_when_one_end_fails():
    pipe(["echo", "hello"], ["grep", "hello"])
    with pytest.raises(HostUnreachable, match="no such thing"):
        pipe(["sh", "-c", "echo no such thing >&2; exit 255"], ["cat"])
