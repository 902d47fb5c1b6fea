"""The collective benchmark, without processes: what is asked, the arithmetic, the fit, the tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradsync.cli.arguments import parse
from gradsync.cli.main import dispatch
from gradsync.comm import Comm
from gradsync.config.probe import OPERATIONS, ProbeConfig, message_bytes, resolve_probe
from gradsync.draw.export import write_table
from gradsync.errors import InputError
from gradsync.exhibit.form import Table
from gradsync.exhibit.probe import points_table, probe_line
from gradsync.figures.bandwidth import fits, point, points
from gradsync.figures.fit import fit
from gradsync.figures.value import Spread
from gradsync.launch.outcome import Outcome
from gradsync.ledger.cost import link_share
from gradsync.library.runs.check import check_probe
from gradsync.rank.prober import CALLS, MessageTrial, WrongNumbers, repetitions_within
from gradsync.record import ProbeRun, RankRecord, read_config, read_run, write_json, write_settings
from gradsync.study.making.carry_out import Kept, prepare
from gradsync.study.making.found import found_in
from gradsync.study.probe import ProbeStudy, reason, summarize

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
        resolve_probe(ProbeConfig(workers=1))


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
    found = resolve_probe(config)
    assert [(run.transport, run.launcher) for run in found] == [("gloo", "local"), ("mpi", "mpi")]
    assert {(run.processes, run.nodes, run.workers_per_node, run.bandwidth) for run in found} == {(6, 3, 2, "1gbit")}
    assert resolve_probe(ProbeConfig(nodes=4))[0].workers == 4


def test_lists_on_the_command_line_may_have_commas():
    command = parse(["probe", "--workers", "3", "--sizes", "1KB,1MB", "--operations=gather,all-reduce"])
    assert (command.run.sizes, command.run.operations) == (("1KB", "1MB"), ("gather", "all-reduce"))


def test_what_was_asked_survives_its_file(tmp_path: Path):
    config = ProbeConfig(workers=3, sizes=("1KB",), operations=("gather",), hosts=("a", "b", "c"))
    write_json(tmp_path / "probe.json", config.to_dict())
    assert read_config(tmp_path).bytes_asked == [1000]


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
        trial = MessageTrial(Silent(rank, 3), 240, torch.device("cpu"))
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
    assert {name: link_share(name, 4) for name in OPERATIONS} == {
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
        RankRecord().add([row("all-reduce", 1000, 1.0, 4.0), row("gather", 1000, 1.0)]),
        RankRecord().add([row("all-reduce", 1000, 2.0, 3.0)]),
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


# The study and its record


def ranks_of(*seconds: float) -> list[RankRecord]:
    """Two ranks that have timed two sizes of an all-reduce."""
    rows = [
        {"kind": "start", "node": "a", "device": "cpu", "backend": "gloo"},
        row("all-reduce", 1000, *seconds),
        row("all-reduce", 64000, *(2 * each for each in seconds)),
    ]
    return [RankRecord().add(rows) for _ in range(2)]  # type: ignore[arg-type] # of a start, what is needed here


def made(folder: Path, asked: ProbeConfig, *seconds: float, outcome: Outcome | None = None) -> ProbeRun:
    """A benchmark as it is left behind."""
    folder.mkdir(parents=True)
    (ready,) = resolve_probe(asked)
    write_settings(folder, ready)
    write_json(folder / "probe.json", asked.to_dict())
    summary = summarize(ready, ranks_of(*seconds), outcome or Outcome(), folder, 1.0)
    write_json(folder / "summary.json", summary.to_dict())
    found = read_run(folder)
    assert isinstance(found, ProbeRun)
    return found


def test_a_study_is_a_run_for_each_transport_and_repeat():
    study = ProbeStudy(workers=3, transport=("gloo", "mpi"), repeat=2)
    assert [asked.transport for asked in study.repeated(study.plan())] == [("gloo",), ("mpi",)] * 2
    assert all(type(asked) is ProbeConfig for asked in study.plan())
    assert "folder" not in study.plan()[0].to_dict()


def test_the_summary_has_the_points_and_fits_of_one_transport(tmp_path: Path):
    run = made(tmp_path / "run", ProbeConfig(workers=2, sizes=("1KB", "64KB")), 1e-3, 3e-3)
    assert run.summary and run.status == "completed"
    assert (run.summary.transports, run.summary.world_size, run.summary.nodes) == (["gloo"], 2, 1)
    assert [(item.size, item.seconds) for item in run.summary.points] == [(1000, 2e-3), (64000, 4e-3)]
    (fitted,) = run.summary.fits
    assert fitted.beta_bytes_per_second == pytest.approx(63000 / 2e-3)
    assert json.loads((run.folder / "summary.json").read_text())["kind"] == "probe"


def test_an_interruption_tells_how_far_it_was(tmp_path: Path):
    run = made(tmp_path / "run", ProbeConfig(workers=2), 1e-3, outcome=Outcome(signal="SIGINT"))
    assert run.status == "failed" and run.stopped_by == "SIGINT"
    assert run.error and run.error.message == "stopped by SIGINT after 2 points"
    assert reason(Outcome(), [RankRecord(), RankRecord()], tmp_path, 5) is None


def test_repeats_that_ask_for_the_same_are_told_apart_and_what_is_missing_is_made(tmp_path: Path):
    study = ProbeStudy(workers=2, repeat=3)
    plan = study.repeated(study.plan())
    prepare(tmp_path, study, "gradsync probe", plan)
    for number in range(2):
        made(tmp_path / "runs" / f"{number}", plan[number], 1e-3 * (1 + number), 1e-3 * (1 + number))
    asked = [item.to_dict() for item in plan]
    matched = Kept(tmp_path).matched(asked)
    assert [run.folder.name if run else None for run in matched] == ["0", "1", None]
    (found,) = found_in([tmp_path]).studies
    (section,) = found.study.sections(found.runs)
    table = section.exhibits[0]
    assert isinstance(table, Table)
    shown = table.rows[0][1]
    assert isinstance(shown, Spread) and shown.mean == pytest.approx(1.5)  # ms
    assert shown.deviation == pytest.approx(0.5**0.5)


def test_a_benchmark_of_an_earlier_version_is_one_and_its_transports_belong_to_it(tmp_path: Path):
    """It had several transports in one summary, and a folder for each inside."""
    probe = tmp_path / "runs" / "1-probe"
    for folder in (probe, probe / "gloo"):
        folder.mkdir(parents=True)
        write_json(folder / "probe.json", ProbeConfig().to_dict())
    write_json(probe / "gloo" / "config.json", {})
    for place in (tmp_path / "runs", probe, probe / "gloo"):
        assert [run.folder for run in found_in([place]).probes] == [probe]
    assert probe_line(ProbeRun(probe, ProbeConfig(), None)).endswith("a collective benchmark, unfinished.")


def test_points_are_written_as_csv(tmp_path: Path):
    run = made(tmp_path / "run", ProbeConfig(workers=2), 1e-3)
    write_table(points_table([run]), tmp_path / "probe.csv")
    with open(tmp_path / "probe.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert run.summary
    points = run.summary.points
    assert [float(item["bus bandwidth (MB/s)"]) for item in rows] == [item.bus_bandwidth / 1e6 for item in points]
    with pytest.raises(InputError, match=r"cannot write no-such-folder/probe\.csv: No such file"):
        write_table(points_table([]), Path("no-such-folder") / "probe.csv")
