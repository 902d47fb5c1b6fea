"""Scripts as others write them, on emulated nodes, watched and not: what is recorded, and that nothing is changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradsync.cluster import groups, lifecycle
from gradsync.config import Shape
from gradsync.exhibit.findings import findings
from gradsync.exhibit.runs.subjects import named
from gradsync.figures.cases import cases
from gradsync.record import Run, read_run
from root import needs_root, own_name

pytestmark = needs_root

COURSE = Path(__file__).parent.parent / "support" / "course"
WAYS = {"part2a": "gather + scatter", "part2b": "all_reduce", "part3": "ddp", "accelerated": "ddp"}
NODES = 2
SLOW = ["--slow-rank", "1", "--slow-seconds", "0.1"]

Printed = dict[str, list[str]]


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    share = 1.0 if "cpu" in groups.controllers() else None
    cluster = lifecycle.up(own_name("course"), Shape(nodes=NODES, bandwidth="1gbit", cpus=share), "cloudlab")
    yield cluster.name
    lifecycle.down(cluster)


def on_all_nodes(lab: str, *words: str) -> list[str]:
    """The command, as it would be typed on every node of the course's cluster."""
    given = ["--master-ip", "10.10.1.1", "--num-nodes", str(NODES), "--rank", "{rank}", *SLOW]
    return [sys.executable, "-m", "gradsync.cli", "cluster", "exec", lab, "all", "--", *words, *given]


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def bare(lab: str, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """What the scripts print on their own, all in one start."""
    words = on_all_nodes(lab, sys.executable, str(COURSE / "one_after_another.py"), *WAYS, "--")
    done = run(words, tmp_path_factory.mktemp("bare"))
    found: Printed = {}
    script: dict[str, str] = {}  # of each node
    for line in done.stdout.splitlines():
        node, _, text = line.partition(": ")
        if text.startswith("== "):
            script[node] = text.removeprefix("== ")
        else:
            found.setdefault(script[node], []).append(line)
    return found


@pytest.fixture(scope="module")
def watched(lab: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Run, list[str], str]]:
    """Each script under the command: its run, what it printed, and what came after it on stderr."""
    found = {}
    for script in WAYS:
        place = tmp_path_factory.mktemp(script)
        own = [sys.executable, str(COURSE / f"{script}.py")]
        if script == "accelerated":
            whole = "RANK={rank} LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.10.1.1 MASTER_PORT=51002"
            own = ["env", *whole.split(), *own]
        words = [sys.executable, "-m", "gradsync.cli", "watch", "--name", "seen", "--", *on_all_nodes(lab, *own)]
        done = run(words, place)
        run_ = read_run(place / "runs" / "seen")
        assert isinstance(run_, Run) and run_.summary
        found[script] = (run_, done.stdout.splitlines(), done.stderr)
    return found


@pytest.mark.timeout(240)
@pytest.mark.parametrize("script", WAYS)
def test_a_script_prints_and_computes_what_it_does_without_us(watched, bare: Printed, script: str):
    """The last line of each rank is the hash of its final parameters."""
    _, printed, _ = watched[script]
    assert sorted(printed) == sorted(bare[script])
    hashes = {line.split()[-1] for line in printed if "final parameters" in line}
    assert len(hashes) == 1 and len(next(iter(hashes))) == 64


@pytest.mark.parametrize("script", WAYS)
def test_its_run_is_whole_and_says_how_the_ranks_agree(watched, script: str):
    found, _, shown = watched[script]
    summary = found.summary
    assert summary.status == "completed" and summary.world_size == NODES and summary.nodes == NODES
    assert summary.strategy == WAYS[script] and summary.model == "Net"
    assert summary.steps == (6 if script == "accelerated" else 12)
    assert [rank.node for rank in summary.ranks] == ["node0", "node1"]
    assert summary.cluster.bandwidth == "1gbit" and summary.transport == "gloo"
    assert summary.train_loss == [] and summary.test is None  # nobody has told us
    assert summary.remarks == []
    assert WAYS[script] in shown and "the ledger of a step, rank by rank" in shown and str(found.folder.name) in shown


@pytest.mark.parametrize("script", WAYS)
def test_its_ledger_adds_up_to_the_step(watched, script: str):
    for rank in watched[script][0].summary.ranks:
        assert sum(rank.ledger.values()) == pytest.approx(rank.seconds_per_step, rel=0.02)


@pytest.mark.parametrize("script", WAYS)
def test_its_bytes_are_those_of_the_closed_form(watched, script: str):
    """Counted on the interface of each node; the formula is that of the operations which were called."""
    for rank in watched[script][0].summary.ranks:
        assert rank.network.source == "interface eth1"
        for side in ("sent_bytes", "received_bytes"):
            assert getattr(rank.network, side) == pytest.approx(getattr(rank.network.closed_form, side), rel=0.05)


@pytest.mark.parametrize("script", WAYS)
def test_a_slow_rank_is_named(watched, script: str):
    """It sleeps in its forward."""
    found = watched[script][0]
    assert found.summary.straggler and found.summary.straggler.rank == 1
    assert found.summary.straggler.cause == "forward"
    assert any("rank 1 arrives last" in sentence for sentence in findings(named(cases([found]))))


@pytest.mark.parametrize("script", WAYS)
def test_the_ranks_hold_the_bits_that_the_script_printed(watched, script: str):
    hashes = {rank.parameters_sha256 for rank in watched[script][0].summary.ranks}
    assert len(hashes) == 1 and None not in hashes
