"""The measurements against truth: real processes, bytes the kernel counted, delays that were put in."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.figures.catalogue.of_traffic import OVERHEAD
from gradsync.figures.figure import At
from gradsync.ledger.parts import HIDDEN, PARTS, ledgers, under_way
from gradsync.ledger.stragglers import NO_CORE
from gradsync.ledger.timeline import whole_steps
from gradsync.ledger.trace import trace
from gradsync.library.runs.check import resolved
from gradsync.record import Run, rank_files, rank_records
from gradsync.record.summaries import ByteCounts, Network
from gradsync.strategies import STRATEGIES
from trace_format import check_format

pytestmark = pytest.mark.alone

SYNCHRONOUS = [
    name for name, kind in STRATEGIES.items() if name != "none" and not (kind.has_servers or kind.in_one_process)
]
SERVED = ["ps-sync", "ps-async"]
OVERLAPPING = {"ddp", "bucketed"}
STEPS = 8

MODEL = """
from torch import nn

def wide():
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 300), nn.BatchNorm1d(300), nn.ReLU(), nn.Linear(300, 10))
"""

Runs = dict[tuple[str, str, int], Run]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """(strategy, buffers, workers): every strategy on 2, 3 and 4, with 3.7 MB of gradients, 2.4 kB of statistics."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "model.py").write_text(MODEL)
    cases = [(name, "local") for name in SYNCHRONOUS] + [("ddp", "broadcast"), ("ddp", "average")]
    cases += [(name, "local") for name in SERVED]
    found = {}
    for workers in (2, 3, 4):
        configs = [
            RunConfig(
                model=f"{folder / 'model.py'}:wide",
                strategy=strategy,
                buffers=buffers,
                workers=workers,
                steps=STEPS,
                batch_size=24,
                train_samples=24 * STEPS,
                threads=1,
                eval=False,
                out=str(folder / "runs"),
            )
            for strategy, buffers in cases
        ]
        for case, run in zip(cases, launch.run_in_turn([resolved(config) for config in configs]), strict=True):
            assert run.status == "completed", run.summary.error
            found[(*case, workers)] = run
    return found


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("strategy", [*SYNCHRONOUS, *SERVED])
def test_the_ledger_adds_up_to_the_wall_time_of_every_step(runs: Runs, strategy: str, workers: int):
    run = runs[strategy, "local", workers]
    records = rank_records(run.folder, workers)
    steps = whole_steps(records)
    assert len(steps) == STEPS
    for number, ranks in enumerate(steps, 1):
        for rank, ledger in enumerate(ledgers(ranks)):
            wall = next(row["seconds"] for row in records[rank].steps if row["step"] == number)
            assert sum(ledger[part] for part in PARTS) == pytest.approx(wall, rel=0.02)
            assert min(ledger.values()) > -1e-5
            communicated = ledger["wait"] + ledger["wire"] + ledger[HIDDEN]
            assert communicated == pytest.approx(under_way(ranks[rank]), abs=1e-5)
            assert ledger["forward"] > 0
            assert ledger["backward"] > 0
            assert ledger["wire"] + ledger[HIDDEN] > 0
    for rank in run.summary.ranks:
        assert set(rank.ledger) == set(PARTS)
        assert sum(rank.ledger.values()) == pytest.approx(rank.seconds_per_step, rel=0.02)
    assert sum(run.summary.ledger.values()) == pytest.approx(run.summary.seconds_per_step, rel=0.02)


def test_communication_is_hidden_by_those_that_send_while_backward_goes_on(runs: Runs):
    hidden = {name for name in SYNCHRONOUS if runs[name, "local", 2].summary.hidden_comm > 0}
    assert hidden == OVERLAPPING


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("strategy", SYNCHRONOUS)
def test_the_kernel_counts_what_the_closed_form_says(runs: Runs, strategy: str, workers: int):
    (record,) = rank_records(runs[strategy, "local", workers].folder, 1)
    count = record.start["gradient_bytes"]
    for rank in runs[strategy, "local", workers].summary.ranks:
        expected = 2 * (workers - 1) / workers * count  # the formulas of the issue, written out once more
        if strategy == "gather-scatter":
            expected = (workers - 1) * count if rank.rank == 0 else count
        network, closed_form = rank.network, rank.network.closed_form
        assert network.source == "sockets"
        if strategy != "reduce-broadcast":  # whose ranks differ; all of them together are below
            assert closed_form.sent_bytes == closed_form.received_bytes == pytest.approx(expected * STEPS)
        for name in ("sent_bytes", "received_bytes"):
            assert getattr(network, name) == pytest.approx(getattr(closed_form, name), rel=0.05, abs=1e4)
        overhead = OVERHEAD.of(At(runs[strategy, "local", workers], rank.rank))
        assert overhead is not None and abs(overhead) < 0.05


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("strategy", SERVED)
def test_workers_and_servers_send_what_they_must(runs: Runs, strategy: str, workers: int):
    summary = runs[strategy, "local", workers].summary
    count = summary.ranks[0].payload.kinds["gradients"].sent_bytes
    for rank in summary.ranks:
        assert rank.payload.kinds["gradients"] == ByteCounts(sent_bytes=count, received_bytes=0)
        assert rank.payload.kinds["parameters"] == ByteCounts(sent_bytes=0, received_bytes=count)
        assert rank.network.closed_form == ByteCounts(sent_bytes=count, received_bytes=count)
        assert counted_well(rank.network, count)
    (server,) = summary.servers
    assert (server.role, server.pushes) == ("server", workers * STEPS)
    assert server.network.closed_form == ByteCounts(sent_bytes=workers * count, received_bytes=workers * count)
    assert counted_well(server.network, workers * count)
    assert server.cpu_percent > 0


def counted_well(network: Network, count: float) -> bool:
    """What arrives is counted once. What is sent is counted with retransmissions, which a busy machine makes."""
    received = network.received_bytes == pytest.approx(count, rel=0.05)
    return received and 0.95 * count < network.sent_bytes < 1.25 * count


def test_staleness_is_counted_for_every_gradient(runs: Runs):
    waited, unwaited = (runs[name, "local", 4].summary for name in SERVED)
    assert (waited.updates, waited.staleness.histogram) == (STEPS, {"0": 4 * STEPS})
    assert (unwaited.updates, sum(unwaited.staleness.histogram.values())) == (4 * STEPS, 4 * STEPS)
    assert unwaited.staleness.max > 0
    for rank in unwaited.ranks:
        assert rank.finish_seconds > 0
        assert rank.dropped == 0


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_reduce_and_broadcast_together_send_what_their_trees_and_rings_must(runs: Runs, workers: int):
    ranks = runs["reduce-broadcast", "local", workers].summary.ranks
    count = ranks[0].payload.kinds["gradients"].sent_bytes  # what rank 0 broadcasts
    reduced, broadcast = (workers - 1) * count * (1 + 1 / workers), (workers - 1) * count
    for name in ("sent_bytes", "received_bytes"):
        assert sum(getattr(rank.network, name) for rank in ranks) == pytest.approx(reduced + broadcast, rel=0.05)


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_statistics_travel_as_they_were_asked_to(runs: Runs, workers: int):
    local, broadcast, average = (
        runs["ddp", mode, workers].summary.ranks for mode in ("local", "broadcast", "average")
    )
    count = 2 * 300 * 4 * STEPS
    assert "buffers" not in local[0].payload.kinds
    assert broadcast[0].payload.kinds["buffers"] == ByteCounts(sent_bytes=count, received_bytes=0)
    assert broadcast[1].payload.kinds["buffers"] == ByteCounts(sent_bytes=0, received_bytes=count)
    assert average[1].payload.kinds["buffers"] == ByteCounts(sent_bytes=count, received_bytes=count)
    for ranks, total in ((broadcast, (workers - 1) * count), (average, 2 * (workers - 1) * count)):
        more = sum(one.network.closed_form.sent_bytes for one in ranks) - sum(
            one.network.closed_form.sent_bytes for one in local
        )
        assert more == pytest.approx(total)
    setup = local[0].payload.setup
    assert setup["parameters"].sent_bytes == (3072 * 300 + 300 + 300 + 300 + 3010) * 4
    assert setup["control"].sent_bytes > 0


def test_clocks_of_one_machine_are_found_to_agree(runs: Runs):
    for rank in runs["all-reduce", "local", 4].summary.ranks:
        assert len(rank.clock) == 2
        for reading in rank.clock:
            assert abs(reading.offset) <= reading.bound < 1.0
            assert (reading.bound > 0) == (rank.rank > 0)


def test_the_host_is_sampled(runs: Runs):
    for rank in runs["ddp", "local", 2].summary.ranks:
        assert rank.cpu_percent > 0
        assert rank.run_delay_percent >= 0
        assert rank.peak_memory_bytes >= rank.memory_bytes > 50e6


@pytest.mark.parametrize("strategy", [*SYNCHRONOUS, *SERVED])
def test_a_trace_of_four_workers_is_one_a_viewer_can_open(runs: Runs, strategy: str):
    folder = runs[strategy, "local", 4].folder
    whole = json.loads(json.dumps(trace(rank_records(folder, len(rank_files(folder))))))
    check_format(whole)
    spans = [event for event in whole["traceEvents"] if event["ph"] == "X"]
    assert {event["pid"] for event in spans} == {1, 2, 3, 4}
    own = {"wait"} if strategy in SERVED else {"optimizer"}  # the update is a server's
    assert {"forward", "backward", "wire"} | own <= {event["name"] for event in spans}
    assert any(event["ph"] == "s" for event in whole["traceEvents"]) == (strategy not in SERVED)


PLACES = ("data", "forward", "backward")
MILLISECONDS = 200
INJECTED = [(place, rank) for place in PLACES for rank in range(4)]


@pytest.fixture(scope="module")
def injected(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Every place on every rank, then every strategy without; the strategies take turns."""
    out = str(tmp_path_factory.mktemp("injected"))
    base = {"model": "logistic", "workers": 4, "steps": 8, "batch_size": 32, "train_samples": 256, "threads": 1}
    configs = [
        RunConfig(
            **base,
            strategy=SYNCHRONOUS[number % len(SYNCHRONOUS)],
            inject=f"rank={rank},where={place},ms={MILLISECONDS}",
            eval=False,
            out=out,
        )
        for number, (place, rank) in enumerate(INJECTED)
    ]
    configs += [RunConfig(**base | {"steps": 40}, strategy=name, eval=False, out=out) for name in SYNCHRONOUS]
    return launch.run_in_turn([resolved(config) for config in configs])


def usual(run: Run) -> list[dict[str, float]]:
    """The median step of every rank: one step in which the machine was busy elsewhere does not count."""
    steps = [ledgers(ranks) for ranks in whole_steps(rank_records(run.folder, run.summary.world_size), first=2)]
    return [
        {part: statistics.median(step[rank][part] for step in steps) for part in PARTS}
        for rank in range(run.summary.world_size)
    ]


def test_rank_and_cause_are_named_in_twelve_of_twelve(injected: list[Run]):
    found = [run.summary.straggler for run in injected[: len(INJECTED)]]
    assert [item and (item.cause, item.rank) for item in found] == INJECTED
    for item in found:
        assert item.seconds == pytest.approx(MILLISECONDS / 1e3, rel=0.5)


def test_the_delay_is_in_the_ledger_where_it_was_put_and_the_others_wait(injected: list[Run]):
    for (place, slow), run in zip(INJECTED, injected, strict=False):
        ledger = usual(run)
        others = [item for rank, item in enumerate(ledger) if rank != slow]
        assert ledger[slow][place] >= MILLISECONDS / 1e3
        assert max(item[place] for item in others) < MILLISECONDS / 2e3
        assert min(item["wait"] for item in others) > MILLISECONDS / 2e3 > ledger[slow]["wait"]


def test_without_injection_nobody_is_called_slow(injected: list[Run]):
    """Four ranks on two cores: one may be found to lack a core, which is not its fault and true."""
    found = [run.summary.straggler for run in injected[len(INJECTED) :]]
    assert len(found) == len(SYNCHRONOUS)
    assert not [item for item in found if item and item.cause != NO_CORE]


@pytest.mark.parametrize("strategy", ["all-reduce", "ddp"])
def test_a_slow_link_is_wire_and_not_waiting(train, tmp_path: Path, strategy: str):
    """With synchronized BatchNorm, whose messages must keep their place among DDP's buckets."""
    (tmp_path / "model.py").write_text(MODEL)
    model = f"{tmp_path / 'model.py'}:wide"
    run = train(
        model=model, strategy=strategy, workers=2, steps=5, eval=False, sync_bn=True, inject="rank=1,where=link,ms=50"
    )
    assert run.status == "completed", run.summary.error
    for ledger in usual(run):
        assert ledger["wire"] > 0.1, "statistics forward and backward, and the last bucket"
        assert ledger["wait"] < ledger["wire"] / 2
    assert len({rank.parameters_sha256 for rank in run.summary.ranks}) == 1


DIES = """
import os
from gradsync.strategies.ddp import DDP

class Dies(DDP):
    steps = 0

    def step(self):
        super().step()
        self.steps += 1
        if self.steps == 4 and self.comm.rank == 1:
            os._exit(3)
"""


def test_a_measured_rank_that_loses_its_peer_does_not_train_on_alone(train, tmp_path: Path):
    (tmp_path / "dies.py").write_text(DIES)
    run = train(model="logistic", strategy=f"{tmp_path / 'dies.py'}:Dies", workers=2, steps=100_000, eval=False)
    assert run.status == "failed"
    assert run.summary.error.rank == 1
    assert len(rank_records(run.folder, 2)[0].steps) == 4


@pytest.mark.parametrize("workers", [2, 3])
def test_measuring_changes_no_bit(tmp_path: Path, workers: int):
    """A third has no exact value, so that dividing in another way would show; a half may be taken from the loss."""
    base = {"model": "mnist-cnn", "strategy": "ddp", "workers": workers, "steps": 6, "batch_size": 24}
    base |= {"train_samples": 144}
    configs = [RunConfig(**base, threads=1, eval=False, out=str(tmp_path), measure=on) for on in (True, False)]
    measured, plain = launch.run_in_turn([resolved(config) for config in configs])
    assert plain.summary.ledger is plain.summary.hidden_comm is None
    assert plain.summary.ranks[0].network is None
    assert measured.summary.ledger["forward"] > 0
    one, other = (run.summary.ranks[0].parameters_sha256 for run in (measured, plain))
    assert one == other
