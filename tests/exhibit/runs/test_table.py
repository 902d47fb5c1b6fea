"""Runs as one table: from records, without processes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from exhibited import column, steps_of, subjects, text, with_figures, with_own_models, written_row
from gradsync.errors import InputError
from gradsync.exhibit.columns import COLUMNS, choose
from gradsync.exhibit.form import Table
from gradsync.exhibit.runs.table import runs_table
from gradsync.figures.catalogue import FIGURES
from gradsync.figures.value import Spread
from gradsync.record import Run, read_run
from gradsync.record.summaries import Staleness


def table_of(*runs: Run, columns: tuple[str, ...] = ()) -> Table:
    return runs_table(subjects(runs), columns)


def test_speed_up_projection_and_what_all_share_in_the_title(tmp_path: Path):
    table = table_of(steps_of(tmp_path, "local", 1, 0.8, steps=3), steps_of(tmp_path, "all-reduce", 2, 0.5, steps=3))
    assert table.title == "logistic on synthetic · global batch 64 · 3 steps · fp32"
    row = written_row(table, "all-reduce")
    assert (row["step"], row["speed-up"], row["efficiency"]) == ("0.50 ± 0.00", "1.60", "80%")
    assert row["epoch"] == "5.00"  # ten steps
    assert "The epoch time of a run that ended within its first epoch is estimated from the step time." in table.notes
    assert column(table, "speed-up")[0] == 1.0
    assert table.notes[0] == (
        "±: standard deviation within one run, over steps 2 to 3; for speed-up and efficiency, the standard error of "
        "the mean."
    )


def test_an_epoch_that_ended_is_not_called_projected(tmp_path: Path):
    table = table_of(with_figures(steps_of(tmp_path, "ddp", 2, 0.5), epoch_seconds=[10.0, 6.0]))
    assert written_row(table, "ddp")["epoch"] == "6.00"
    assert not any("at the measured pace" in note and "Epochs" in note for note in table.notes)


def test_no_local_run_means_no_speed_up(tmp_path: Path):
    table = table_of(steps_of(tmp_path, "ddp", 2, 0.5))
    assert column(table, "speed-up") == column(table, "efficiency") == [None]
    assert "×" not in text(table)


def test_an_unfinished_run_shows_what_it_has_so_far(tmp_path: Path):
    run = steps_of(tmp_path, "local", 1, 0.5)
    table = table_of(replace(run, summary=None))
    row = written_row(table, "local")
    assert row["status"] == "unfinished"
    assert row["step"] == "0.50 ± 0.00"
    assert "unfinished" in text(table)
    assert "status" not in [item.name for item in table_of(run).columns]


def test_a_run_of_another_version_with_other_settings_can_be_shown(tmp_path: Path):
    run = steps_of(tmp_path, "local", 1, 0.5)
    config = json.loads((run.folder / "config.json").read_text())
    (run.folder / "config.json").write_text(json.dumps({**config, "setting_of_tomorrow": 3}))
    (run.folder / "resolved.json").unlink()
    (run.folder / "summary.json").unlink()
    found = read_run(run.folder)
    assert isinstance(found, Run)
    assert "unfinished" in text(table_of(found))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_of_a_comparison_splits_no_number_and_no_name_at_any_width(tmp_path: Path, width: int):
    table = table_of(
        steps_of(tmp_path, "local", 1, 0.0123),
        with_own_models(steps_of(tmp_path, "gather-scatter", 2, 1.5), 0.6, 0.8),
    )
    shown = text(table, width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for cell in written_row(table, "gather-scatter").values():
        assert cell in shown
    if width >= 120:
        assert any(re.match(r"gather-scatter +2 +1\.50 ± 0\.00 .* 60\.00%", line) for line in shown.splitlines())


def test_names_with_brackets_are_shown_as_they_are(tmp_path: Path):
    odd = with_figures(steps_of(tmp_path, "local", 1, 0.5), strategy="[/a].py:Mine", model="[/b].py:f")
    shown = text(table_of(odd))
    assert "[/a].py:Mine" in shown
    assert "[/b].py:f" in shown


def test_what_differs_has_a_column_and_the_strategy_alone_names_the_row(tmp_path: Path):
    table = table_of(*(steps_of(tmp_path, "ddp", 2, 0.5, batch_size=size) for size in (64, 128)))
    assert column(table, "strategy") == ["ddp", "ddp"]
    assert column(table, "batch size") == [64, 128]
    assert "batch" not in table.title
    alike = table_of(*(steps_of(tmp_path, "ddp", 2, 0.5) for _ in range(2)))
    assert column(alike, "strategy") == ["ddp", "ddp (2)"], "nothing in the table would tell them apart"


STALE = Staleness(histogram={"0": 12, "1": 6, "11": 1}, mean=0.9, max=11, dropped=1)


def asynchronous(tmp_path: Path) -> Run:
    run = steps_of(tmp_path, "ps-async", 2, 0.2)
    return with_figures(
        run,
        options={"max-staleness": "12"},
        updates=19,
        staleness=STALE,
        server_count=1,
        seconds_per_step_spread=0.01,
        epoch_seconds=[2.0],
        read_seconds=0.25,
        total_seconds=8.0,
    )


def test_columns_are_chosen_by_name(tmp_path: Path):
    names = ("workers", "servers", "updates", "staleness", "read", "step", "epoch", "test-loss", "accuracy", "total")
    table = table_of(asynchronous(tmp_path), columns=names)
    row = table.texts()[0]
    assert row == [
        "ps-async (max-staleness 12)", "2", "1", "19", "0.90", "0.25", "0.20 ± 0.01", "2.00", "0.100", "50.00%", "8.0"
    ]  # fmt: skip
    assert any("reading: until every rank had its part" in note for note in table.notes)
    assert text(table_of(asynchronous(tmp_path), columns=tuple(COLUMNS))).count("ps-async (") >= 1


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_can_be_asked_for_and_every_figure_is_one(tmp_path: Path, name: str):
    run = steps_of(tmp_path, "all-reduce", 2, 0.5)
    table = table_of(run, columns=(name,))
    assert len(table.columns) == 2
    value, words = table.rows[0][1], table.texts()[0][1]
    assert value is None or isinstance(value, (int, float, str, Spread))
    assert words
    if name in FIGURES:
        assert table.columns[1].name == FIGURES[name].title
        assert table.columns[1].unit == FIGURES[name].unit


def test_every_figure_of_the_catalogue_is_a_column():
    assert set(FIGURES) <= set(COLUMNS)


def test_an_unknown_column_lists_them_all():
    with pytest.raises(InputError, match=r"unknown column 'acuracy'\. Did you mean accuracy .*staleness"):
        choose(("workers", "acuracy"))


def test_repeats_are_one_line_and_the_note_says_how_many_there_were(tmp_path: Path):
    from gradsync.exhibit.runs.subjects import named
    from gradsync.figures.cases import cases

    runs = [steps_of(tmp_path, "ddp", 2, seconds, seed=seed) for seed, seconds in enumerate((0.1, 0.2, 0.3))]
    table = runs_table(named(cases(runs)))
    assert column(table, "step") == [Spread(pytest.approx(0.2), pytest.approx(0.1))]
    assert table.notes[0] == "±: standard deviation over 3 runs with different seeds."
