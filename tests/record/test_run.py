"""A run folder as it is read back: what was asked, what it came to, and what became of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradsync.config import RunConfig
from gradsync.config import resolved as resolving
from gradsync.errors import InputError
from gradsync.record import CONFIG_FILE, RESOLVED_FILE, DamagedRecord, Run, read_resolved, read_run, write_json
from gradsync.record.summaries import Error
from made_up import made_up, resolved

ASKED = RunConfig(model="logistic", strategy="all-reduce", workers=2, steps=4)
SERVED = RunConfig(model="logistic", strategy="ps-async", workers=2, steps=4)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_up(tmp_path, ASKED)


def test_a_run_knows_what_was_asked_and_what_it_came_to(run: Run):
    assert run.asked == ASKED
    assert run.config == ASKED.to_dict()
    assert run.resolved == resolved(ASKED)
    assert run.resolved.asked is run.asked
    assert json.loads((run.folder / CONFIG_FILE).read_text())["threads"] is None
    assert json.loads((run.folder / RESOLVED_FILE).read_text())["threads"] == run.resolved.threads


def test_what_it_came_to_is_read_and_not_worked_out_again(run: Run, monkeypatch: pytest.MonkeyPatch):
    """On a host with other cores it would come to other threads."""
    monkeypatch.setattr(resolving, "available_cores", lambda: 64)
    assert resolved(ASKED).threads == 32
    again = read_run(run.folder)
    assert isinstance(again, Run)
    assert again.resolved.threads == read_resolved(run.folder).threads == run.resolved.threads < 32


@pytest.mark.parametrize("asked", [ASKED, SERVED, RunConfig(strategy="data-parallel", workers=2, steps=4)])
def test_a_folder_from_before_there_was_a_resolved_json_is_resolved_when_it_is_read(
    asked: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = made_up(tmp_path, asked)
    (before.folder / RESOLVED_FILE).unlink()
    monkeypatch.setattr(resolving, "available_cores", lambda: 64)
    run = read_run(before.folder)
    assert isinstance(run, Run)
    assert run.resolved == before.resolved  # the threads too, which are in its summary
    (before.folder / "summary.json").unlink()
    unfinished = read_run(before.folder)
    assert isinstance(unfinished, Run)
    assert replace(unfinished.resolved, threads=before.resolved.threads) == before.resolved


def test_an_old_folder_whose_settings_do_not_go_together_is_damaged(run: Run):
    (run.folder / RESOLVED_FILE).unlink()
    write_json(run.folder / CONFIG_FILE, run.config | {"servers": 3})
    again = read_run(run.folder)
    assert isinstance(again, Run)
    with pytest.raises(DamagedRecord, match=r"config\.json: --servers is for strategies with parameter servers"):
        _ = again.resolved


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", r"damaged: resolved\.json: it is not JSON"),
        ("[1]", r"its resolved\.json is not one of gradsync's"),
        ('{"name": "somebody else\'s"}', r"its resolved\.json is not one of gradsync's"),
        ('{"model": "logistic"}', r"damaged: resolved\.json: batch_size is missing"),
        ('{"model": 5, "workers": 2}', r"damaged: resolved\.json: batch_size is missing"),
    ],
)
def test_a_damaged_or_foreign_resolved_json_is_named(run: Run, text: str, sentence: str):
    (run.folder / RESOLVED_FILE).write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_run(run.folder)
    with pytest.raises(InputError, match=sentence):
        read_resolved(run.folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"threads": 0}, "--threads is 0: it must be from 1"),
        ({"threads": "two"}, "--threads is 'two': it must be a whole number"),
        ({"servers": 2}, "all-reduce has none"),
    ],
)
def test_a_value_in_it_that_cannot_be_is_damage(run: Run, change: dict, sentence: str):
    write_json(run.folder / RESOLVED_FILE, run.resolved.to_dict() | change)
    with pytest.raises(DamagedRecord, match=rf"damaged: resolved\.json: .*{sentence}"):
        read_run(run.folder)


@pytest.mark.parametrize(("signal", "name"), [(None, None), ("SIGTERM", "SIGTERM")])
def test_a_run_knows_the_signal_that_stopped_it(run: Run, signal: str | None, name: str | None):
    error = Error(rank=None, type="ProcessDied", message="", traceback="", log=[], signal=signal)  # type: ignore[arg-type]
    assert run.summary
    assert replace(run, summary=replace(run.summary, error=error)).stopped_by == name
    assert run.stopped_by is None
