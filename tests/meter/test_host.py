"""Samples of this very process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gradsync.ledger.counted import cpu_percent, network, payload, without_core
from gradsync.meter import host
from gradsync.meter.host import HostSampler, forget_peak, peak_memory
from gradsync.meter.network import Counts
from gradsync.record import RankLog, read_rank, read_rows, record_of
from gradsync.record.summaries import ByteCounts, Network, Payload
from made_up import start_row, step_row


class Fixed:
    source = "test"

    def __init__(self, *readings: Counts) -> None:
        self._readings = iter(readings)

    def read(self) -> Counts:
        return next(self._readings)

    def close(self) -> None:
        self.closed = True


def test_the_first_and_the_last_sample_frame_the_training(tmp_path: Path):
    log = RankLog(tmp_path, 0)
    log.write(**start_row(network_source="test", wire_bytes=[100.0, 100.0]))
    with HostSampler(log, Fixed(Counts(5, 5), Counts(215, 215)), torch.device("cpu")):
        sum(number * number for number in range(300_000))
        for step in (1, 2):
            log.write(**step_row(step, begin=0.0, first_collective=0, payload={}))
        late = step_row(3, begin=1e12, first_collective=0, payload={})
        log.write(**late)  # after the last sample: not in the count
    assert kinds(tmp_path) == ["start", "links", "host", "step", "step", "step", "host", "links"]
    record = read_rank(tmp_path / "rank-0.jsonl")
    assert network(record) == Network(
        sent_bytes=210,
        received_bytes=210,
        steps=2,
        source="test",
        closed_form=ByteCounts(sent_bytes=200.0, received_bytes=200.0),
    )
    assert cpu_percent(record) > 0
    assert without_core(record) >= 0
    assert record.hosts[-1]["peak_memory_bytes"] >= 50e6
    assert payload(record) == Payload(sent_bytes=0, received_bytes=0, kinds={}, setup={})


def kinds(folder: Path) -> list[str]:
    return [row["kind"] for row in read_rows(folder / "rank-0.jsonl")]


def test_a_sample_that_fails_is_left_out_and_training_goes_on(tmp_path: Path):
    log = RankLog(tmp_path, 0)
    with HostSampler(log, Fixed(), torch.device("cpu")):
        log.write(**step_row())
    assert kinds(tmp_path) == ["links", "step", "links"]


def test_it_samples_while_training_goes_on(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(host, "SECONDS", 0.01)
    log = RankLog(tmp_path, 0)
    sampler = HostSampler(log, None, torch.device("cpu"))
    with sampler:
        while len(kinds(tmp_path)) < 5:
            pass
    record = read_rank(tmp_path / "rank-0.jsonl")
    times = [row["time"] for row in record.hosts]
    assert times == sorted(times)
    assert all(row["sent_bytes"] is None for row in record.hosts)
    assert network(record) is None


def test_a_node_with_half_a_core_lacks_nothing_while_it_runs_half_of_the_time():
    start = {"kind": "start", "setup_payload": [], "threads": 1}
    before = {"kind": "host", "time": 0.0, "run_seconds": 1.0, "run_delay_seconds": 2.0, "sent_bytes": None}
    usage = {"memory_bytes": 1, "peak_memory_bytes": 1}
    before |= {"cpu_seconds": 3.0}

    def lacking(ran: float, waited: float, share: float | None = 0.5, others: float = 0.0) -> float | None:
        after = before | {"time": 10.0, "run_seconds": 1.0 + ran, "run_delay_seconds": 2.0 + waited}
        after |= {"cpu_seconds": 3.0 + ran + others}
        return without_core(record_of([start | {"core_share": share}, before | usage, after | usage]))

    assert lacking(5.0, 5.0) == pytest.approx(0)  # it wanted all the time, and had its half
    assert lacking(2.0, 2.0) == pytest.approx(0)  # it waited for messages in between
    assert lacking(3.0, 7.0) == pytest.approx(20)  # its share was 5 s
    assert lacking(3.0, 7.0, others=2.0) == pytest.approx(0)  # other threads of the process had the rest
    assert lacking(9.0, 1.0) == 0
    assert lacking(3.0, 7.0, share=None) == pytest.approx(70)


def test_the_peak_is_this_programs_and_not_its_parents():
    """A process of 600 MB starts a smaller one: getrusage would give the child its parent's peak."""
    child = "from gradsync.meter.host import peak_memory; print(peak_memory())"
    parent = (
        "import subprocess, sys; kept = bytearray(b'x') * 600_000_000; "
        f"print(subprocess.run([sys.executable, '-c', {child!r}], capture_output=True, text=True).stdout)"
    )
    found = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, timeout=60)
    assert 20e6 < int(found.stdout) < 500e6


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel cannot forget a peak")
def test_a_peak_can_be_forgotten():
    large = bytearray(b"x") * 200_000_000
    before = peak_memory()
    del large
    forget_peak()
    assert peak_memory() < before - 100e6
