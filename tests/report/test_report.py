"""Tables and progress from rows, without processes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from gradsync.config import RunConfig
from gradsync.record import RankLog, Run, write_json
from gradsync.report.follow import Follower, following
from gradsync.report.progress import COLUMNS, Lines, Watch, WatchMany
from gradsync.report.study_progress import work
from gradsync.report.summary import failure_text, runs_table
from gradsync.summary import summarize
from made_up import start_row, step_row


def write_run(folder: Path, strategy: str, workers: int, seconds: float, correct: list[int]) -> Run:
    """A run folder as the ranks would leave it: 3 steps of a longer epoch, each rank with a test of its own."""
    folder.mkdir()
    config = RunConfig(strategy=strategy, workers=workers, batch_size=8, steps=3)
    ranks = []
    for rank in range(workers):
        rows = [
            {
                "kind": "start",
                "rank": rank,
                "node": "n",
                "role": "worker",
                "world_size": workers,
                "parameters": 5,
                "steps_per_epoch": 10,
            }
        ]
        for step in (1, 2, 3):
            row = {"kind": "step", "step": step, "epoch": 1, "loss": 2.0, "samples": 8 // workers}
            rows.append(row | {"seconds": seconds})
        test = {
            "kind": "test",
            "step": 3,
            "epoch": 1,
            "whole": True,
            "loss_sum": 9.0,
            "correct": correct[rank],
        }
        ranks.append([*rows, test | {"count": 10}])
    summary = summarize(config.resolved(), ranks, None, 1.0)
    write_json(folder / "config.json", config.to_dict())
    return Run(folder, config.to_dict(), summary)


def text(table: object) -> str:
    console = Console(file=io.StringIO(), width=160, markup=False)  # as make_console's
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table_has_speed_up_projection_and_the_ranks_where_they_differ(tmp_path: Path):
    local = write_run(tmp_path / "a", "local", 1, 0.8, [7])
    two = write_run(tmp_path / "b", "all-reduce", 2, 0.5, [6, 8])
    shown = text(runs_table([local, two]))
    assert "0.500 ± 0.000" in shown
    assert "1.60×" in shown
    assert "~8.0" in shown
    assert "60.00%" in shown
    assert "80.00%" in shown
    assert "one per rank" in shown
    assert "vgg11 on synthetic · global batch 8 · 3 steps · fp32" in shown


def test_equal_ranks_are_one_line_and_no_local_run_means_no_speed_up(tmp_path: Path):
    shown = text(runs_table([write_run(tmp_path / "a", "ddp", 2, 0.5, [6, 6])]))
    assert shown.count("60.00%") == 1
    assert "×" not in shown
    assert "one per rank" not in shown


def test_an_unfinished_run_shows_what_it_has_so_far(tmp_path: Path):
    whole = write_run(tmp_path / "a", "local", 1, 0.5, [7])
    log = RankLog(whole.folder, 0)
    log.write(**start_row(world_size=1))
    log.write(**step_row())
    cut = Run(whole.folder, whole.config, None)
    assert "unfinished" in text(runs_table([cut]))
    assert "unfinished" in failure_text(cut)


START = start_row(model="vgg11", parameters=9_231_114, gradient_bytes=36_924_456, steps=40)


def test_lines_come_every_so_many_steps_with_speed_and_time_left():
    console = Console(file=io.StringIO(), width=300)
    lines = Lines(console, log_every=2)
    for row in [
        START,
        *({"kind": "step", "step": n, "epoch": 1, "loss": 1.5, "samples": 32, "seconds": 0.5} for n in range(1, 5)),
    ]:
        lines.show(0, row)
    lines.refresh()
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(shown) == 3
    assert "9,231,114 parameters (36.9 MB of gradients a step), 2 workers × 32 samples" in shown[0]
    assert shown[2] == "ddp: epoch 1, step 4/40, loss 1.5000, 128 samples/s, 0.500 s/step, 18 s left"


def measured_step(number: int, rank: int) -> dict:
    """Rank 1 takes 60 ms for its data, and rank 0 waits for it."""
    arrival = 0.08 if rank else 0.02
    return {
        "kind": "step", "step": number, "epoch": 1, "loss": 1.0, "samples": 32, "seconds": 0.1, "begin": number / 10,
        "phases": [["data", 0.0], ["forward", arrival - 0.01], ["agree", arrival]],
        "first_collective": number, "collectives": [["all_reduce", "gradients", 8, 8, arrival, 0.1, 0]],
    }  # fmt: skip


def test_a_line_names_the_rank_the_others_wait_for_once_twenty_steps_show_it():
    console = Console(file=io.StringIO(), width=300)
    lines = Lines(console, log_every=10)
    lines.show(0, START)
    for number in range(1, 21):
        for rank in (0, 1):
            lines.show(rank, measured_step(number, rank))
        lines.refresh()
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert shown[1].endswith("s left"), "ten steps are not enough"
    assert shown[2].endswith("; rank 1 arrives last in 20 of 20 steps, by 60 ms; cause: data")


def test_many_runs_are_counted_in_lines(tmp_path: Path):
    console = Console(file=io.StringIO(), width=300)
    folders = [tmp_path / name for name in "ab"]
    with WatchMany(console, runs=2)(*folders):
        for folder in folders:
            folder.mkdir()
            log = RankLog(folder, 0)
            log.write(**START)
            log.write("end", time=1.0)
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert shown == ["run 1 of 2: ddp, 2 workers", "run 2 of 2: ddp, 2 workers"]


def test_the_follower_hands_out_whole_rows_once(tmp_path: Path):
    path = tmp_path / "rank-0.jsonl"
    follower = Follower(path)
    assert follower.new_rows() == []
    first, second = (json.dumps(step_row(step)) + "\n" for step in (1, 2))
    path.write_text(first + second[:9])
    assert follower.new_rows() == [step_row(1)]
    with open(path, "a") as file:
        file.write(second[9:] + "null\n\x00\n")
    assert follower.new_rows() == [step_row(2)], "garbage is not shown, and does no harm"


def test_watching_shows_rows_written_just_before_the_end(tmp_path: Path):
    console = Console(file=io.StringIO(), width=300)
    write_json(tmp_path / "config.json", RunConfig().to_dict())
    with Watch(console, log_every=1)(tmp_path):
        log = RankLog(tmp_path, 0)
        log.write(**START)
        log.write(**step_row(loss=float("nan")))
    assert "loss not a number" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_base_of_a_speed_up_is_the_completed_local_run_of_the_same_comparison(tmp_path: Path):
    runs = [
        write_run(tmp_path / "a", "local", 1, 8.0, [7]),
        write_run(tmp_path / "b", "local", 1, 1.0, [7]),
        write_run(tmp_path / "c", "ddp", 2, 0.5, [7, 7]),
    ]
    assert "2.00×" in text(runs_table(runs))
    failed = {**runs[1].summary, "status": "failed"}  # type: ignore[dict-item]
    runs[1] = Run(runs[1].folder, runs[1].config, failed)
    assert "16.00×" in text(runs_table(runs))


@pytest.mark.parametrize(
    "place",
    [
        {"cluster": {"cpus": 0.5}},
        {"cluster": {"cpus": None}},
        {"device": "cuda:0"},
        {"host": {"processor": "another", "cores": 2, "device": None}},
    ],
)
def test_a_run_on_another_kind_of_place_is_no_base_of_a_speed_up(tmp_path: Path, place: dict):
    """A local run on half a core made ddp on bare ones 2.42 times as fast."""
    runs = [
        write_run(tmp_path / "a", "local", 1, 1.0, [7]),
        write_run(tmp_path / "b", "local", 1, 8.0, [7]),
        write_run(tmp_path / "c", "ddp", 2, 0.5, [7, 7]),
    ]
    assert "16.00×" in text(runs_table(runs))
    runs[1] = Run(runs[1].folder, runs[1].config, {**runs[1].summary, **place})  # type: ignore[dict-item]
    assert "2.00×" in text(runs_table(runs)), "against the one before it"
    assert "×" not in text(runs_table(runs[1:])).replace("1.00×", "")


def test_a_run_of_another_version_with_other_settings_can_be_shown(tmp_path: Path):
    run = write_run(tmp_path / "a", "local", 1, 0.5, [7])
    assert "unfinished" in text(runs_table([Run(run.folder, {**run.config, "setting_of_tomorrow": 3}, None)]))


def test_the_table_of_a_comparison_fits_into_80_columns(tmp_path: Path):
    runs = [
        write_run(tmp_path / "a", "local", 1, 0.0123, [7]),
        write_run(tmp_path / "b", "gather-scatter", 2, 1.5, [6, 8]),
    ]
    console = Console(file=io.StringIO(), width=80)
    console.print(runs_table(runs, console.width))
    rows = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "…" not in "".join(rows)
    assert any("gather-scatter" in row and "1.500 ± 0.000" in row and "60.00%" in row for row in rows)


def test_a_listener_that_fails_is_left_out_and_the_others_go_on(tmp_path: Path, capsys):
    class Fails:
        def show(self, rank: int, row: dict) -> None:
            raise ZeroDivisionError

        def refresh(self) -> None:
            raise AssertionError("it was to be told nothing more")

    console = Console(file=io.StringIO(), width=300)
    with following([tmp_path], [Fails(), Lines(console, 1)]):
        RankLog(tmp_path, 0).write(**START)
    assert "9,231,114 parameters" in console.file.getvalue()  # type: ignore[attr-defined]
    assert capsys.readouterr().err.count("Traceback") == 1


def test_names_with_brackets_are_shown_as_they_are(tmp_path: Path):
    run = write_run(tmp_path / "a", "local", 1, 0.5, [7])
    odd = Run(run.folder, run.config, {**run.summary, "strategy": "[/a].py:Mine", "model": "[/b].py:f"})  # type: ignore[dict-item]
    shown = text(runs_table([odd]))
    assert "[/a].py:Mine" in shown
    assert "[/b].py:f" in shown


def test_the_bar_shows_names_with_brackets_as_they_are():
    progress = Progress(*COLUMNS)
    progress.add_task("[/a].py:Mine", total=1, facts="[/b]")
    shown = text(progress.get_renderable())
    assert "[/a].py:Mine" in shown
    assert "[/b]" in shown


def test_the_work_of_a_run_is_guessed_from_its_model_steps_and_cores():
    def guessed(**settings: object) -> float:
        return work(RunConfig(**settings).to_dict())

    few, many = (guessed(model="vgg11", batch_size=256, steps=steps, nodes=1, cpus=0.5) for steps in (1, 11))
    assert many - few == pytest.approx(10 * 5.12, rel=0.01)  # as measured: 5 s a step on half a core
    assert guessed(model="resnet18", steps=10) > 2 * guessed(model="mnist-cnn", steps=10)
    four = guessed(model="vgg11", batch_size=256, steps=100, nodes=2, cpus=0.5, workers=2)
    assert four < 0.6 * guessed(model="vgg11", batch_size=256, steps=100, nodes=1, cpus=0.5)
