"""The collective benchmark, without processes: what is asked, the arithmetic, the fit, the tables."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gradsync.arguments import parse
from gradsync.check import check_probe
from gradsync.cli import dispatch
from gradsync.comm import Comm
from gradsync.config.probe import OPERATIONS, ProbeConfig, load_probe, message_bytes
from gradsync.errors import InputError
from gradsync.launch.outcome import Outcome
from gradsync.rank.prober import CALLS, Trial, WrongNumbers, repetitions_within
from gradsync.record import Run, write_json
from gradsync.report.collect import find
from gradsync.report.probe import probe_line, probe_tables, size_text
from gradsync.study.bandwidth import Point, bus_factor, fits, point, points
from gradsync.study.fit import fit
from gradsync.study.probe import reason, summarize, write_csv

POSITIVE = st.floats(1e-7, 1e3)
SIZES = st.lists(st.integers(1, 10**9), min_size=2, max_size=9, unique=True)


# What is asked


def test_sizes_go_from_1_kb_to_64_mb_by_default_and_are_read_with_their_units():
    assert ProbeConfig().bytes_asked == [10**3 * 4**n for n in range(5)] + [10**6 * 4**n for n in range(4)]
    assert ProbeConfig(sizes=("1.5MB", "4kb", "4000B", "16B")).bytes_asked == [16, 4000, 1_500_000]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"operations": ("allreduce",)}, "Did you mean all-reduce.*Known: all-gather, all-reduce, broadcast"),
        ({"operations": ()}, "--operations is empty"),
        ({"sizes": ("4",)}, "--sizes is '4': it must be a number with KB, MB, GB, B, for instance 64KB,1MB"),
        ({"sizes": ("0KB",)}, "each must be from 1B to 4GB"),
        ({"iterations": 0}, "--iterations is 0"),
        ({"seconds": 0.0}, "--seconds is 0"),
        ({"transport": ("carrier-pigeon",)}, "--transport is"),
        ({"transport": ("auto", "gloo")}, "--transport auto stands alone"),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(settings: dict[str, object], sentence: str):
    with pytest.raises(InputError, match=sentence):
        ProbeConfig(**settings)


def test_one_worker_is_refused():
    with pytest.raises(InputError, match="one worker has nobody to send to: give --workers 2 or more"):
        ProbeConfig(workers=1).runs()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--workers", "1"), "one worker has nobody to send to"),
        (("--transport", "mpi", "--mpiexec", "no-such-mpiexec"), "there is no such command"),
        (("--transport", "nccl", "--device", "cpu"), "--transport nccl needs a GPU for every worker"),
        (("--transport", "mpi", "--device", "cuda"), "use --device cpu, or gloo"),
        (("--csv", "nowhere/probe.csv"), "cannot write nowhere/probe.csv: No such file or directory"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(
    args: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=sentence):
        dispatch(parse(["probe", *args]))
    assert not list(tmp_path.iterdir())


def test_mpi_needs_mpi4py(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs mpi4py and an MPI: pip install 'gradsync\[mpi\]'"):
        check_probe(ProbeConfig(transport=("mpi",)))


def test_there_is_a_start_for_each_transport_with_the_placement_asked():
    config = ProbeConfig(workers=6, transport=("gloo", "mpi", "gloo"), nodes=3, bandwidth="1gbit")
    found = [run.resolved() for run in config.runs()]
    assert [(run.transport, run.launcher) for run in found] == [("gloo", "local"), ("mpi", "mpi")]
    assert {(run.processes, run.nodes, run.workers_per_node, run.bandwidth) for run in found} == {(6, 3, 2, "1gbit")}
    assert ProbeConfig(nodes=4).runs()[0].resolved().workers == 4


def test_lists_on_the_command_line_may_have_commas():
    command = parse(["probe", "--workers", "3", "--sizes", "1KB,1MB", "--operations=gather,all-reduce"])
    assert (command.run.sizes, command.run.operations) == (("1KB", "1MB"), ("gather", "all-reduce"))


def test_what_was_asked_survives_its_file(tmp_path: Path):
    config = ProbeConfig(workers=3, sizes=("1KB",), operations=("gather",), hosts=("a", "b", "c"))
    write_json(tmp_path / "probe.json", config.to_dict())
    assert load_probe(tmp_path / "probe.json").bytes_asked == [1000]


# What a rank does


@given(asked=st.integers(1, 10**9), workers=st.integers(2, 64))
def test_a_message_has_as_many_numbers_for_every_worker(asked: int, workers: int):
    count = message_bytes(asked, workers)
    assert count % (4 * workers) == 0
    assert count == 4 * workers or asked - 4 * workers < count <= asked


def test_large_messages_are_timed_less_often_but_three_times():
    assert repetitions_within(0.5, needed=1e-4, most=20) == 20
    assert repetitions_within(0.5, needed=0.05, most=20) == 10
    assert repetitions_within(0.5, needed=60, most=20) == 3
    assert repetitions_within(0.5, needed=60, most=1) == 1


class Silent(Comm):
    """Sends nothing."""


Silent.__abstractmethods__ = frozenset()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_moves_nothing_is_found_out(operation: str):
    found_out = 0
    for rank in range(3):
        trial = Trial(Silent(rank, 3), 240, torch.device("cpu"))
        CALLS[operation](trial)
        try:
            trial.check(operation)
        except WrongNumbers:
            found_out += 1
    assert found_out >= 1
    assert set(CALLS) == set(OPERATIONS)


def test_with_one_process_a_reduce_scatter_and_an_all_gather_are_copies():
    comm, into = Silent(), torch.zeros(4)
    comm.reduce_scatter(torch.arange(4.0), into)
    assert into.tolist() == [0, 1, 2, 3]
    comm.all_gather(torch.ones(4), into)
    assert into.tolist() == [1, 1, 1, 1]


# The arithmetic


def test_the_factors_are_those_of_nccl_tests():
    assert {name: bus_factor(name, 4) for name in OPERATIONS} == {
        "broadcast": 1,
        "reduce": 1,
        "gather": 0.75,
        "scatter": 0.75,
        "all-reduce": 1.5,
        "reduce-scatter": 0.75,
        "all-gather": 0.75,
    }


def row(operation: str, size: int, *seconds: float) -> dict[str, object]:
    return {"kind": "point", "operation": operation, "size": size, "bytes": size, "seconds": list(seconds)}


def test_a_time_is_the_mean_over_iterations_of_the_slowest_rank():
    ranks = [
        [{"kind": "start"}, row("all-reduce", 1000, 1.0, 4.0), row("gather", 1000, 1.0)],
        [{"kind": "start"}, row("all-reduce", 1000, 2.0, 3.0)],
    ]
    (found,) = points("gloo", ranks)  # the second rank never got as far as the gather
    assert (found.seconds, found.median_seconds, found.iterations) == (3.0, 3.0, 2)
    assert found.spread_seconds == pytest.approx(2**0.5)
    assert found.algorithm_bandwidth == found.bus_bandwidth == pytest.approx(1000 / 3)
    assert point("gloo", "gather", 4, 1000, 1000, [2.0]).bus_bandwidth == pytest.approx(375)


@given(alpha=POSITIVE, beta=st.floats(1e3, 1e12), moved=SIZES)
def test_the_fit_finds_the_numbers_that_made_the_times(alpha: float, beta: float, moved: list[int]):
    seconds = [alpha + count / beta for count in moved]
    found = fit(moved, seconds)
    assert found.largest_error < 1e-6
    for count, second in zip(moved, seconds, strict=True):
        assert found.seconds(count) == pytest.approx(second, rel=1e-6)


def test_the_fit_finds_alpha_and_beta():
    moved = [1e3 * 4**n for n in range(9)]
    found = fit(moved, [50e-6 + count / 1.25e8 for count in moved])
    assert found.alpha_seconds == pytest.approx(50e-6, rel=1e-9)
    assert found.beta_bytes_per_second == pytest.approx(1.25e8, rel=1e-9)
    assert found.rms_error == pytest.approx(0, abs=1e-12)


@given(moved=SIZES, data=st.data())
def test_the_fit_is_never_negative_and_tells_its_error(moved: list[int], data: st.DataObject):
    seconds = data.draw(st.lists(POSITIVE, min_size=len(moved), max_size=len(moved)))
    found = fit(moved, seconds)
    assert found.alpha_seconds >= 0
    assert found.beta_bytes_per_second is None or found.beta_bytes_per_second > 0
    errors = [found.seconds(count) / second - 1 for count, second in zip(moved, seconds, strict=True)]
    assert found.largest_error == pytest.approx(max(map(abs, errors)), rel=1e-6, abs=1e-9)
    assert found.rms_error <= found.largest_error * (1 + 1e-9)
    assert found.rms_error <= 1 + 1e-9, "no worse than saying that everything takes no time"


def test_a_fit_needs_two_sizes():
    with pytest.raises(ValueError, match="two sizes or more"):
        fit([1000, 1000], [1.0, 2.0])
    assert fits([point("gloo", "gather", 4, 1000, 1000, [1.0])]) == []


# The record and the tables


def some_points(workers: int = 4) -> list[Point]:
    return [
        point(transport, operation, workers, size, size, [(1e-4 + size / 1e9) * (1 + share) for share in (0, 0.1)])
        for transport in ("gloo", "mpi")
        for operation in OPERATIONS
        for size in ProbeConfig().bytes_asked
    ]


def measured(error: dict[str, object] | None = None) -> dict[str, object]:
    facts = {"world_size": 4, "nodes": 1, "device": "cpu", "threads": 1, "cluster": None, "points": some_points()}
    gloo, mpi = {"transport": "gloo", "error": error}, {"transport": "mpi", "error": None, "points": []}
    return summarize([facts | gloo, facts | mpi], total_seconds=1.0)


def shown(*tables: object, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    for table in tables:
        console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_tables_are_80_columns_wide_and_cut_nothing():
    narrow = shown(*probe_tables(measured()))
    assert max(map(len, narrow.splitlines())) <= 80
    assert "…" not in narrow
    words = {word for word in shown(*probe_tables(measured()), width=200).split() if "─" not in word}
    assert words <= set(narrow.split())
    for name in ("gloo, 4 workers on 1 node: time, ms", "mpi, 4 workers", "reduce-scatter", "64 MB", "β, Gbit/s"):
        assert name in narrow


def test_the_summary_has_every_point_and_fit_and_says_what_failed():
    whole = measured()
    assert (whole["status"], len(whole["points"]), len(whole["fits"])) == ("completed", 2 * 7 * 9, 2 * 7)
    assert {(item["transport"], item["operation"]) for item in whole["fits"]} == {
        (transport, name) for transport in ("gloo", "mpi") for name in OPERATIONS
    }
    json.dumps(whole, allow_nan=False)
    failed = measured({"rank": 1, "type": "WrongNumbers", "message": "x"})
    assert (failed["status"], failed["error"]["transport"]) == ("failed", "gloo")


def test_an_interruption_tells_how_far_it_was(tmp_path: Path):
    error = reason(Outcome(signal="SIGINT"), [[], []], tmp_path, 5)
    assert error and error["message"] == "stopped by SIGINT after 5 points"
    assert reason(Outcome(), [[], []], tmp_path, 5) is None


def test_a_benchmark_among_runs_is_a_line_and_its_parts_belong_to_it(tmp_path: Path):
    probe = tmp_path / "runs" / "1-probe"
    for folder in (probe, probe / "gloo"):
        folder.mkdir(parents=True)
        write_json(folder / "probe.json", ProbeConfig().to_dict())
    write_json(probe / "gloo" / "config.json", {})
    for place in (tmp_path / "runs", probe, probe / "gloo"):
        assert [run.folder for run in find([place]).probes] == [probe]
    assert probe_line(Run(probe, {}, None)).endswith("a collective benchmark, unfinished.")
    assert "4 workers over gloo, mpi, completed: gradsync show" in probe_line(Run(probe, {}, measured()))


def test_sizes_and_files():
    assert [size_text(count) for count in (16, 1000, 1_500_000, 4 * 10**9)] == ["16 B", "1 KB", "1.5 MB", "4 GB"]
    with pytest.raises(InputError, match="cannot write"):
        write_csv(Path("no-such-folder") / "probe.csv", [])
