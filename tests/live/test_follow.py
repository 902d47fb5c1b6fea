"""What is said while runs go on: lines in a pipe, the bar of a terminal, and listeners that fail."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gradsync.config import RunConfig
from gradsync.live.follow import Follower, following
from gradsync.live.progress import Lines, WatchRun
from gradsync.live.study_progress import work
from gradsync.record import RankLog, write_json
from made_up import start_row, step_row

START: Any = start_row(model="vgg11", parameters=9_231_114, gradient_bytes=36_924_456, steps=40)


def pipe() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=300, markup=False), out


def test_lines_come_every_so_many_steps_with_speed_and_time_left():
    console, out = pipe()
    lines = Lines(console, log_every=2)
    for row in [START, *(step_row(number) for number in range(1, 5))]:
        lines.show(0, row)  # type: ignore[arg-type] # rows as made up
    lines.refresh()
    shown = out.getvalue().splitlines()
    assert len(shown) == 3
    assert "9,231,114 parameters (36.9 MB of gradients a step), 2 workers × 32 samples" in shown[0]
    assert shown[2] == "ddp: epoch 1, step 4/40, loss 1.5000, 128 samples/s, 0.500 s/step, 18 s left"


def measured_step(number: int, rank: int) -> Any:
    """Rank 1 takes 60 ms for its data, and rank 0 waits for it."""
    arrival = 0.08 if rank else 0.02
    return step_row(
        number,
        seconds=0.1,
        begin=number / 10,
        phases=[["data", 0.0], ["forward", arrival - 0.01], ["agree", arrival]],
        first_collective=number,
        collectives=[["all_reduce", "gradients", 8, 8, arrival, 0.1, 0]],
        payload={},
    )


def test_a_line_names_the_rank_the_others_wait_for_once_twenty_steps_show_it():
    console, out = pipe()
    lines = Lines(console, log_every=10)
    lines.show(0, START)
    for number in range(1, 21):
        for rank in (0, 1):
            lines.show(rank, measured_step(number, rank))
        lines.refresh()
    shown = out.getvalue().splitlines()
    assert shown[1].endswith("s left"), "ten steps are not enough"
    assert shown[2].endswith("; rank 1 arrives last in 20 of 20 steps, by 60 ms; cause: data")


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
    console, out = pipe()
    write_json(tmp_path / "config.json", RunConfig().to_dict())
    with WatchRun(console, log_every=1)(tmp_path):
        log = RankLog(tmp_path, 0)
        log.write(**START)
        log.write(**step_row(loss=float("nan")))
    assert "loss NaN or infinite" in out.getvalue()


def test_a_listener_that_fails_is_left_out_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    class Fails:
        def show(self, rank: int, row: Any) -> None:
            raise ZeroDivisionError

        def refresh(self) -> None:
            raise AssertionError("it was to be told nothing more")

    console, out = pipe()
    with following([tmp_path], [Fails(), Lines(console, 1)]):
        RankLog(tmp_path, 0).write(**START)
    assert "9,231,114 parameters" in out.getvalue()
    assert capsys.readouterr().err.count("Traceback") == 1


def test_the_work_of_a_run_is_guessed_from_its_model_steps_and_cores():
    def guessed(**settings: Any) -> float:
        return work(RunConfig(**settings).to_dict())

    few, many = (guessed(model="vgg11", batch_size=256, steps=steps, nodes=1, cpus=0.5) for steps in (1, 11))
    assert many - few == pytest.approx(10 * 5.12, rel=0.01)  # as measured: 5 s a step on half a core
    assert guessed(model="resnet18", steps=10) > 2 * guessed(model="mnist-cnn", steps=10)
    four = guessed(model="vgg11", batch_size=256, steps=100, nodes=2, cpus=0.5, workers=2)
    assert four < 0.6 * guessed(model="vgg11", batch_size=256, steps=100, nodes=1, cpus=0.5)
