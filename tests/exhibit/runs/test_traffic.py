"""Bytes beside the closed form, and the host, rank by rank."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exhibited import column, steps_of, subjects, tables_of, text, with_figures
from gradsync.exhibit.form import Table
from gradsync.exhibit.runs.traffic import MOST_ROWS, traffic_sections
from gradsync.record import Run
from gradsync.record.summaries import ByteCounts, Network, Payload


def counted(out: Path, strategy: str, workers: int = 2) -> Run:
    """4 MB of gradients a step, 4.2 counted."""
    run = steps_of(out, strategy, workers, 0.5, steps=10)
    assert run.summary
    network = Network(
        sent_bytes=42e6,
        received_bytes=41e6,
        steps=10,
        source="sockets",
        closed_form=ByteCounts(sent_bytes=40e6, received_bytes=40e6),
    )
    handed = ByteCounts(sent_bytes=40e6, received_bytes=40e6)
    once = ByteCounts(sent_bytes=8e6, received_bytes=0)
    payload = Payload(sent_bytes=40e6, received_bytes=40e6, kinds={"gradients": handed}, setup={"parameters": once})
    changes = {"network": network, "payload": payload, "cpu_percent": 93.0, "run_delay_percent": 31.0}
    ranks = [replace(rank, **changes, peak_memory_bytes=512e6) for rank in run.summary.ranks]  # type: ignore[arg-type]
    return with_figures(run, ranks=ranks)


def tables(*runs: Run) -> tuple[Table, Table]:
    found = tables_of(traffic_sections(subjects(runs)))
    return found["Bytes of a step"], found["The host, rank by rank"]


def test_every_rank_has_what_was_counted_beside_the_closed_form(tmp_path: Path):
    handed, host = tables(counted(tmp_path, "gather-scatter"), counted(tmp_path, "ddp"))
    assert handed.texts()[0] == ["gather-scatter", "rank 0", "–", "4.00", "4.20", "4.00", "4.10", "+3.8%"]
    names = [item.name for item in handed.columns]
    assert names == ["run", "rank", "node", "gradients", "sent", "closed form", "received", "overhead"]
    assert column(handed, "run") == ["gather-scatter"] * 2 + ["ddp"] * 2
    assert host.texts()[0] == ["gather-scatter", "rank 0", "–", "93%", "31%", "512"]
    assert handed.notes[0] == ("gradients: payload handed to collectives (before the first step: parameters 8 MB).")
    assert "counted by the kernel (sockets)" in handed.notes[1]
    shown = text(handed, 80)
    assert max(map(len, shown.splitlines())) <= 80 and "…" not in shown


def test_the_node_is_told_where_there_are_several(tmp_path: Path):
    run = counted(tmp_path, "ddp")
    assert run.summary
    ranks = [replace(rank, node=f"node{rank.rank + 1}") for rank in run.summary.ranks]
    handed, _ = tables(with_figures(run, ranks=ranks))
    assert column(handed, "node") == ["node1", "node2"]


def test_servers_stand_below_the_workers(tmp_path: Path):
    run = counted(tmp_path, "ps-sync")
    assert run.summary
    server = replace(run.summary.ranks[0], rank=2, role="server", cpu_percent=50.0, peak_memory_bytes=256e6)
    handed, host = tables(with_figures(run, servers=[server]))
    assert column(handed, "rank") == ["rank 0", "rank 1", "server 2"]
    assert host.texts()[-1] == ["ps-sync", "server 2", "–", "50%", "31%", "256"]
    assert "for a server per gradient it received" in handed.notes[1]


def test_all_ranks_are_shown_or_it_is_said_which_are_not(tmp_path: Path):
    few = traffic_sections(subjects([counted(tmp_path, "ddp", 8)]))
    assert not few[0].sentences
    many = traffic_sections(subjects([counted(tmp_path, way, 32) for way in ("ddp", "ring")]))
    (table,) = (item for item in many[0].exhibits if isinstance(item, Table))
    assert column(table, "rank") == ["rank 0", "rank 1"] * 2
    assert MOST_ROWS < 2 * 32
    for section in many:
        assert section.sentences == ["Ranks 0 and 1 of each run are shown; 60 others are left out."]


def test_without_a_counter_and_without_messages_that_is_said(tmp_path: Path):
    run = steps_of(tmp_path, "none", 2, 0.5)
    assert run.summary
    ranks = [replace(rank, network=None, payload=None) for rank in run.summary.ranks]
    handed, host = tables(with_figures(run, ranks=ranks))
    assert handed.notes[:2] == ["No messages.", "Bytes were not counted."]
    assert column(handed, "sent") == [None, None]
    assert column(host, "peak memory") == [pytest.approx(100)] * 2
    assert traffic_sections(subjects([with_figures(run, ledger=None)])) == []


def test_one_process_sends_nothing_and_has_only_a_host(tmp_path: Path):
    sections = traffic_sections(subjects([steps_of(tmp_path, "local", 1, 0.5)]))
    assert [section.title for section in sections] == ["The host"]


def test_they_are_details(tmp_path: Path):
    assert all(section.detail for section in traffic_sections(subjects([counted(tmp_path, "ddp")])))
