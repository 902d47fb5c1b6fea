"""What a terminal shows of runs under way: whole names and whole numbers, however narrow it is."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from gradsync.config import RunConfig
from gradsync.live.bars import Bars, bars_of_steps, lines_of
from gradsync.live.progress import Bar
from gradsync.live.study_progress import WatchStudy
from gradsync.record import write_json
from made_up import stamped, start_row, step_row

WIDTHS = (60, 80, 120, 200)


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True)


def drawn(bars: Bars, width: int) -> list[str]:
    """The lines on the terminal, without colours; the last one is the bar."""
    plain = Console(file=io.StringIO(), width=width)
    plain.print(bars.get_renderable())
    lines = plain.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "…" not in "".join(lines)
    assert max(map(len, lines)) <= width
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_study_says_what_varies_first_and_cuts_no_name_and_no_number(tmp_path: Path, width: int):
    """At 80 columns it was options.bucke…, and at 60 the value was gone."""
    asked = [RunConfig(strategy="ddp", workers=2, steps=40, options={"bucket-mb": size}) for size in ("12.5", "25")]
    write_json(tmp_path / "config.json", asked[0].to_dict())
    watch = WatchStudy(terminal(width), [config.to_dict() for config in asked], runs=12)
    watch._folders = [tmp_path]
    watch.show(0, start_row(steps=40, batch_size=4096))
    watch._begin -= 90.0
    watch.show(0, step_row(40))
    *lines, bar = drawn(watch._progress, width)
    assert " ".join(lines) == (
        "run 11 of 12: bucket-mb 12.5, ddp, 2 workers, batch 4,096, step 40/40, about 2 min left"
    )
    assert len(lines) == (2 if width < 90 else 1)
    assert "━" in bar


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_says_who_is_late_and_why_in_whole_words(width: int):
    console = terminal(width)
    bars = bars_of_steps(console)
    bar = Bar(console, bars)
    for rank in (0, 1):
        bar.show(rank, start_row(rank=rank, steps=100_000))
    for step in range(1, 21):
        for rank, forward in enumerate((0.02, 0.06)):
            bar.show(rank, stamped(step, forward))
    bar.refresh()
    *lines, below = drawn(bars, width)
    assert " ".join(lines) == (
        "ddp, loss 1.5000, 640 samples/s, rank 1 arrives last in 20 of 20 steps, by 40 ms; cause: forward"
    )
    assert "20/100000" in below and "-:--:--" in below


def test_names_with_brackets_are_shown_as_they_are():
    bars = bars_of_steps(terminal(80))
    bars.add_task("", total=1, facts=["[/a].py:Mine", "[/b]"])
    assert drawn(bars, 80)[0] == "[/a].py:Mine, [/b]"


def test_a_line_ends_between_facts():
    assert list(lines_of(["one two", "three", "four"], 14)) == ["one two,", "three, four"]
    assert list(lines_of(["one two", "three", "four"], 15)) == ["one two, three,", "four"]
    assert list(lines_of([], 15)) == []
