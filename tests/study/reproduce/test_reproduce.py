"""Published and ours beside each other, from runs with known times."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhibited import HOST, with_figures
from gradsync.draw.cells import cells
from gradsync.exhibit.form import Chart, Section, Table
from gradsync.figures.value import Spread
from gradsync.record import Run, read_run, write_json
from gradsync.study import study_of
from gradsync.study.making.carry_out import prepare, read_study
from gradsync.study.reproduce import published
from gradsync.study.reproduce.reproduction import Reproduction
from made_up import made_up, resolved

FASTER = {"local": 1.6, "gather-scatter": 1.7, "all-reduce": 1.0, "ddp": 0.7}


def runs_of(what: Reproduction, folder: Path, seconds: dict[str, float] | None = None) -> list[Run]:
    """Few steps each; ``seconds``: of a step, by strategy."""
    times = seconds or {}
    found = []
    for config in what.plan():
        way = resolved(config).strategy
        found.append(made_up(folder, config, compute=times.get(way, 0.1), wire=0.01, steps_per_epoch=4))
    return found


def titled(sections: list[Section], title: str) -> list[Table | Chart]:
    return [item for section in sections for item in section.exhibits if item.title.startswith(title)]


@pytest.mark.parametrize("name", published.NAMES)
def test_every_table_and_figure_has_its_counterpart(tmp_path: Path, name: str):
    what = Reproduction(report=name, scale="smoke", real_data=("cifar10", "mnist"), gpu=True, steps=4)
    sections = what.sections(runs_of(what, tmp_path))
    for item in published.read(name).exhibits:
        (section,) = [each for each in sections if each.title == f"{item.name}: {item.title}"]
        tables = [each for each in section.exhibits if isinstance(each, Table)]
        assert sum(len(table.rows) for table in tables) == len(item.rows) * len(item.figures)
        assert all("Scale smoke; 4 steps of each run" in each.notes[-1] for each in section.exhibits)
        for table in tables:
            names = [column.name for column in table.columns]
            shown = [row[names.index("ours")] for row in table.rows]
            if "time of a step" in table.title:
                assert all(value is not None for value in shown)
    claimed = sections[0].exhibits[0]
    assert isinstance(claimed, Table) and len(claimed.rows) == len(published.read(name).claims)


def test_times_are_compared_against_the_first_row_and_claims_are_judged(tmp_path: Path):
    what = Reproduction(report="cs744-vgg11-14", real_data=("cifar10",), steps=4)
    runs = runs_of(what, tmp_path, FASTER)
    (table, *charts) = titled(what.sections(runs), "Conclusion")
    assert isinstance(table, Table)
    steps = {row[0]: row[1:] for row in table.rows}
    assert steps["all-reduce"][0] == pytest.approx(1.0231)
    assert steps["all-reduce"][1] == pytest.approx(1.0101)
    assert steps["all-reduce"][2] == pytest.approx(1.0231 / 2.5220)
    assert steps["all-reduce"][3] == pytest.approx(1.0101 / 1.6101, rel=1e-3)
    assert charts and {mark["series"] for mark in charts[0].rows} == {"published", "ours"}
    found = {item.claim.text: item for item in what.findings(what.by_name(runs))}
    faster = found["All-reduce takes less time per step than gather and scatter."]
    assert faster.verdict == "reproduced" and faster.ours == "1.69×" and faster.published == "1.35×"
    accuracy = found["DDP gives no significant improvement in accuracy over just 1 epoch."]
    assert accuracy.verdict == "reproduced"  # 4 steps are an epoch here
    assert what.summary(runs)[0].startswith("Of 14 claims of the report: ")


def test_published_values_and_ours_have_the_format_of_their_figure_in_the_unit_of_the_report(tmp_path: Path):
    what = Reproduction(report="cs744-vgg11-2317", only=("Fig 1.1",), real_data=("cifar10",), steps=4)
    table = titled(what.sections(runs_of(what, tmp_path, FASTER)), "Fig 1.1")[0]
    assert isinstance(table, Table)
    shown = {row[1]: row[2:4] for row in cells(table).rows}
    assert shown["time of a step (s)"] == ["1.64", "1.61"]
    assert shown["time of an epoch (min)"] == ["5.39", "0.11"]
    assert shown["test loss"] == ["2.191", "0.100"]
    assert shown["test accuracy (%)"] == ["15.68", "50.00"]


def test_a_speed_up_has_its_uncertainty_and_its_ideal_also_of_one_run_each(tmp_path: Path):
    what = Reproduction(report="hpml-lab4", scale="smoke", only=("Question 2",), emulated=False, steps=4)
    runs = []
    for run in runs_of(what, tmp_path):
        workers = run.resolved.workers
        shared = {"host": HOST, "threads": 2 if workers == 1 else 1}
        runs.append(with_figures(run, seconds_per_step_spread=0.01, **shared))
    (section,) = [each for each in what.sections(runs) if each.title.startswith("Question 2")]
    table = section.exhibits[0]
    assert isinstance(table, Table)
    ours = [row[[column.name for column in table.columns].index("ours")] for row in table.rows]
    assert ours[0] == 1.0, "against itself"
    error = 2 * (0.01**2 / 3 * (1 / 0.1101**2 + 1 / 0.1001**2)) ** 0.5  # of three steps, of 2 workers and of one
    assert isinstance(ours[3], Spread) and ours[3].deviation == pytest.approx(ours[3].mean / 2 * error, rel=0.05)
    assert table.notes[0].startswith("±: of one run each, the standard error of the mean of its steps")
    assert any("so the ideal speed-up is 1×, not 2× or 4×." in sentence for sentence in section.sentences)
    first = what.summary(runs)[0]
    assert "an efficiency of" in first and "is above 100%" in first, "before what the report claims"
    assert any("4 compute threads share 2 cores" in sentence for sentence in what.summary(runs))


def test_curves_of_several_ranks_are_lines_of_their_own(tmp_path: Path):
    what = Reproduction(report="cs744-vgg11-14", only=("Part 2a",), real_data=("cifar10",), steps=4)
    (chart,) = [
        item
        for item in titled(what.sections(runs_of(what, tmp_path)), "Part 2a: training loss, mean so far")
        if isinstance(item, Chart)
    ]
    series = [mark["series"] for mark in chart.rows]
    assert {f"gather-scatter, rank {n}, published" for n in range(4)} < set(series)
    for name in set(series):
        along = [mark["x"] for mark in chart.rows if mark["series"] == name]
        assert along == sorted(set(along))


def test_runs_cut_short_decide_nothing_about_accuracy(tmp_path: Path):
    what = Reproduction(report="cs744-vgg11-14", real_data=("cifar10",), steps=3)
    found = what.findings(what.by_name(runs_of(what, tmp_path)))
    learnt = [item for item in found if item.claim.figure == "accuracy" and "DDP gives" in item.claim.text]
    assert [(item.verdict, item.reason) for item in learnt] == [("undecided", "3 steps of 4 in an epoch")]


def test_failed_and_missing_runs_leave_gaps(tmp_path: Path):
    what = Reproduction(report="cs744-vgg11-14", real_data=("cifar10",), steps=4)
    local, gather, *_ = what.plan()
    error = {"rank": 0, "type": "OSError", "message": "", "traceback": "", "log": [], "out_of_memory": True}
    runs = [made_up(tmp_path, local), made_up(tmp_path, gather, error=error)]
    assert "no figures of gather-scatter: out of memory" in what.extent(what.by_name(runs))
    assert {item.verdict for item in what.findings(what.by_name(runs))} <= {"not run", "undecided"}
    assert len(what.sections(runs)) == len(what.sections([])) == 1 + len(what.exhibits)


def test_every_figure_says_how_far_it_is_from_what_the_report_did(tmp_path: Path):
    what = Reproduction(report="cs744-vgg11-14", scale="smoke", emulated=False, steps=3)
    told = what.extent(what.by_name(runs_of(what, tmp_path)))
    assert told == (
        "Scale smoke; 3 steps of each run; synthetic data instead of the real set, so that losses and accuracies "
        "mean nothing; no emulated nodes: all workers share this machine."
    )


def test_a_reproduction_is_rebuilt_from_its_study_file(tmp_path: Path):
    what = Reproduction(report="mpi-mnist", scale="smoke", only=("Figure 7",), real_data=("mnist",))
    prepare(tmp_path, what, "gradsync reproduce mpi-mnist", what.plan())
    assert study_of(read_study(tmp_path)) == what


def test_per_rank_figures_are_of_that_rank(tmp_path: Path):
    """Ranks that hold different models have accuracies of their own; of ranks that hold the same, it is the run's."""
    what = Reproduction(report="cs744-vgg11-2317", real_data=("cifar10",), steps=4)
    run = made_up(tmp_path, what.cases()["all-reduce"], steps_per_epoch=4)
    text = "With all-reduce the exact accuracy differs minutely over the nodes"

    def verdict() -> str:
        findings = what.findings(what.by_name([read_run(run.folder)]))
        return next(item.verdict for item in findings if item.claim.text.startswith(text))

    assert verdict() == "not reproduced"
    assert run.summary
    for number, rank in enumerate(run.summary.ranks, 1):
        rank.parameters_sha256 = str(number)
        rank.test = {"accuracy": number / 10, "loss": 1.0, "correct": number, "count": 10}
    write_json(run.folder / "summary.json", run.summary.to_dict())
    assert verdict() == "reproduced"


def test_repeats_are_mean_and_deviation_and_decide_what_is_noise(tmp_path: Path):
    what = Reproduction(report="cs744-vgg11-14", real_data=("cifar10",), steps=4, repeat=3)
    plan = what.repeated(what.plan())
    assert [asked.seed for asked in plan[:: len(what.plan())]] == [14, 15, 16]
    noisy = {14: 0.5, 15: 1.0, 16: 1.5}  # seconds of a step, by seed
    runs = [made_up(tmp_path, asked, compute=noisy[asked.seed], wire=0.01, steps_per_epoch=4) for asked in plan]
    table = titled(what.sections(runs), "Conclusion")[0]
    assert isinstance(table, Table)
    ours = [column.name for column in table.columns].index("ours")
    shown = {row[0]: row[ours] for row in table.rows}["ddp"]
    assert isinstance(shown, Spread) and shown.deviation == pytest.approx(0.5)
    faster = next(
        item for item in what.findings(what.by_name(runs)) if "All-reduce takes less time" in item.claim.text
    )
    assert faster.verdict == "undecided"
    assert "each run made 3 times" in what.extent(what.by_name(runs))
