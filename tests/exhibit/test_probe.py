"""The collective benchmark as tables, a chart and sentences, from points of known times."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exhibited import HOST, cluster_shape, column, tables_of, text
from gradsync.config.probe import ProbeConfig
from gradsync.exhibit.form import Chart
from gradsync.exhibit.probe import doubts, points_table, probe_line, sections
from gradsync.figures.bandwidth import fits, point
from gradsync.figures.value import Spread
from gradsync.record import ProbeRun, rank_file
from gradsync.record.summaries import ProbePoint, ProbeSummary
from gradsync.study.probe import ProbeStudy
from made_up import start_row

SIZES = (1000, 1_000_000, 4_000_000)


def times(operation: str, transport: str, alpha: float, beta: float, off: float = 0.0) -> list[ProbePoint]:
    """t = α + S / β on two workers, whose factor for an all-reduce and a broadcast is 1; one size is off."""
    seconds = [alpha + size / beta for size in SIZES]
    seconds[1] *= 1 + off
    return [
        point(transport, operation, 2, size, size, [value * 0.99, value * 1.01])
        for size, value in zip(SIZES, seconds, strict=True)
    ]


def benchmark(points: list[ProbePoint], name: str = "probe") -> ProbeRun:
    transports = list(dict.fromkeys(item.transport for item in points))
    summary = ProbeSummary(
        schema=4, status="completed", error=None, world_size=2, nodes=1, device="cpu", threads=1, cluster=None,
        total_seconds=1.0, transports=transports, points=points, fits=fits(points),
    )  # fmt: skip
    return ProbeRun(Path(name), ProbeConfig(workers=2), summary)


def test_a_line_for_each_point_has_the_numbers_and_units_of_the_tables():
    run = benchmark(times("all-reduce", "gloo", 1e-4, 1e9) + times("broadcast", "gloo", 5e-5, 2e9))
    found, points = tables_of(sections([run])), points_table([run])
    of_line = {item.name: item.unit for item in points.columns}
    for title, name in (("time of a collective", "time"), ("bus bandwidth", "bus bandwidth")):
        table = found[f"gloo: {title}"]
        assert {item.unit for item in table.columns[1:]} == {of_line[name]}
        assert [*column(table, "all-reduce"), *column(table, "broadcast")] == column(points, name)


def test_times_with_their_spread_bandwidths_and_fits(tmp_path: Path):
    points = times("all-reduce", "gloo", 1e-4, 1e9) + times("broadcast", "gloo", 5e-5, 2e9)
    (section,) = sections([benchmark(points)])
    assert section.title == "gloo, 2 workers on 1 node"
    found = tables_of([section])
    time = found["gloo: time of a collective"]
    assert column(time, "S") == ["1 KB", "1 MB", "4 MB"]
    cell = column(time, "all-reduce")[1]
    assert isinstance(cell, Spread)
    assert cell.mean == pytest.approx(1.1) and cell.deviation == pytest.approx(1.1 * 0.02 / 2**0.5)
    assert column(found["gloo: bus bandwidth"], "all-reduce")[1] == pytest.approx(1e6 / 1.1e-3 / 1e6)
    fitted = found["gloo: latency and bandwidth, fitted"]
    assert fitted.texts()[0] == ["all-reduce", "1.00", "100", "8.00", "1,000", "0%", "0%"]
    assert section.sentences == [
        "all-reduce: 100 µs and 8.00 Gbit/s (at most 0% off).",
        "broadcast: 50.0 µs and 16.0 Gbit/s (at most 0% off).",
    ]
    (chart,) = [item for item in section.exhibits if isinstance(item, Chart)]
    assert len(chart.rows) == len(points) and chart.x.log and chart.y.log


def test_a_fit_that_is_off_by_more_than_20_percent_is_the_first_sentence(tmp_path: Path):
    points = times("all-reduce", "gloo", 1e-4, 1e9, off=2.0) + times("broadcast", "gloo", 5e-5, 2e9)
    (section,) = sections([benchmark(points)])
    assert section.sentences[0] == (
        "The fit of all-reduce over gloo is off by more than 20% at some size: do not predict times from its α and β."
    )
    assert [sentence.partition(":")[0] for sentence in section.sentences[1:]] == ["broadcast"]


def test_what_limits_a_benchmark_comes_before_the_numbers_of_its_first_transport(tmp_path: Path):
    run = benchmark(
        times("all-reduce", "gloo", 1e-4, 1e9) + times("all-reduce", "mpi", 1e-4, 1e9, off=2.0), str(tmp_path)
    )
    assert run.summary
    cluster = replace(cluster_shape(1.0), run_delay_percent={"node1": 31.0})
    run = replace(run, summary=replace(run.summary, world_size=4, nodes=4, cluster=cluster))
    rank_file(tmp_path, 0).write_text(json.dumps(start_row(host=HOST)) + "\n")
    summary = ProbeStudy(workers=4).summary([run])
    assert summary == [
        "The fit of all-reduce over mpi is off by more than 20% at some size: do not predict times from its α and β.",
        "This benchmark: 4 compute threads share 2 cores. This result is limited by the cores of the machine.",
        "This benchmark: runnable but not scheduled for lack of a core: node1 31% of the time. This result is "
        "limited by the host's cores, not by the network alone.",
        "all-reduce: 100 µs and 8.00 Gbit/s (at most 0% off).",
    ]
    enough = replace(run, summary=replace(run.summary, cluster=replace(cluster, cpus=0.5, run_delay_percent={})))
    assert doubts([enough]) == []
    rank_file(tmp_path, 0).write_text("damaged\n")
    assert len(doubts([run])) == 1, "of its summary"


def test_transports_have_a_section_each_and_repeats_become_one_with_their_deviation():
    runs = [
        benchmark(times("all-reduce", transport, alpha, 1e9), f"{transport}-{alpha}")
        for transport in ("gloo", "mpi")
        for alpha in (1e-4, 3e-4)
    ]
    found = sections(runs)
    assert [section.title for section in found] == ["gloo, 2 workers on 1 node", "mpi, 2 workers on 1 node"]
    cell = column(tables_of(found)["mpi: time of a collective"], "all-reduce")[1]
    assert cell == Spread(pytest.approx(1.2), pytest.approx(0.2 / 2**0.5))


def test_one_size_has_no_fit_and_a_benchmark_without_an_end_no_section():
    points = [item for item in times("all-reduce", "gloo", 1e-4, 1e9) if item.size == 1000]
    (section,) = sections([benchmark(points)])
    assert list(tables_of([section])) == ["gloo: time of a collective", "gloo: bus bandwidth"]
    assert section.sentences == []
    assert sections([ProbeRun(Path("x"), ProbeConfig(workers=2), None)]) == []


def test_beside_runs_it_is_one_line():
    run = benchmark(times("all-reduce", "gloo", 1e-4, 1e9), "probes/x")
    assert probe_line(run) == (
        "probes/x: a collective benchmark of 2 workers over gloo, completed: gradsync show probes/x"
    )
    cut = ProbeRun(Path("probes/x"), ProbeConfig(workers=2), None)
    assert probe_line(cut) == "probes/x: a collective benchmark, unfinished."


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_number_is_split_at_any_width(width: int):
    names = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "all-to-all", "gather", "scatter")
    points = [item for name in names for item in times(name, "gloo", 1e-4, 1e9)]
    (section,) = sections([benchmark(points)])
    shown = text(section, width)
    assert max(map(len, shown.splitlines())) <= width
    for table in tables_of([section]).values():
        for row in table.texts():
            assert all(cell in shown for cell in row)
