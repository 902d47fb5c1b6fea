"""What a pipe is told while a run goes on, from rows as they come."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from gradsync.live.follow import Follower
from gradsync.live.progress import Lines, Pace
from gradsync.record import RankLog
from made_up import stamped, start_row, step_row

STEPS = 20


def printed(*forwards: float) -> list[str]:
    """With a rank for each, all of them heard before the lines are due."""
    out = io.StringIO()
    lines = Lines(Console(file=out, width=200), log_every=STEPS)
    for rank in range(len(forwards)):
        lines.show(rank, start_row(rank=rank, ranks=len(forwards), steps=STEPS))
    for step in range(1, STEPS + 1):
        for rank, forward in enumerate(forwards):
            lines.show(rank, stamped(step, forward))
    lines.refresh()
    return out.getvalue().splitlines()


def test_a_line_has_the_pace_and_names_the_rank_the_others_wait_for():
    headline, last = printed(0.02, 0.06)
    assert headline.startswith("ddp: logistic on synthetic, 1,000 parameters")
    assert "step 20/20, loss 1.5000, 640 samples/s, 0.100 s/step, 0 s left" in last
    assert last.endswith("; rank 1 arrives last in 20 of 20 steps, by 40 ms; cause: forward")


def test_among_equals_nobody_is_named():
    assert "arrives last" not in printed(0.02, 0.02)[-1]


def test_four_replicas_in_one_process_are_not_counted_four_times():
    """Its only rank has taken the whole batch."""
    pace = Pace(start_row(ranks=1, world_size=4))
    pace.add(step_row(samples=64, seconds=0.5))
    assert pace.samples_per_second == 128


def test_rows_are_followed_as_they_are_written_and_what_is_half_written_waits(tmp_path: Path):
    follower = Follower(tmp_path / "rank-0.jsonl")
    assert follower.new_rows() == []
    log = RankLog(tmp_path, 0)
    log.write(**step_row(1))
    assert follower.new_rows() == [step_row(1)]
    with open(tmp_path / "rank-0.jsonl", "a") as file:
        file.write('null\n{"kind": "st')
    assert follower.new_rows() == [], "what is damaged is left out, what is not whole is waited for"
    with open(tmp_path / "rank-0.jsonl", "a") as file:
        file.write('ep"}\n')
    log.write(**step_row(2))
    assert follower.new_rows() == [step_row(2)]
