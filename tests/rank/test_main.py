"""What a rank goes by: the settings in its folder, and nothing it works out itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradsync.config import Resolved, RunConfig
from gradsync.config import resolved as resolving
from gradsync.errors import InputError
from gradsync.rank.main import refuse_missing, run_recorded
from gradsync.rank.world import World
from gradsync.record import CONFIG_FILE, RESOLVED_FILE, read_rank, write_settings
from made_up import resolved

ASKED = RunConfig(model="logistic", strategy="all-reduce", workers=2)


def test_a_rank_takes_its_settings_as_they_are_written_and_resolves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its host has other cores than the one on which the run was started, and it has no config.json."""
    written = replace(resolved(ASKED), threads=7)
    write_settings(tmp_path, written)
    (tmp_path / CONFIG_FILE).unlink()
    for name in ("resolve", "available_cores"):
        monkeypatch.setattr(resolving, name, lambda *_: pytest.fail("a rank has resolved settings"))
    seen: list[Resolved] = []
    assert run_recorded(lambda config, *_: seen.append(config), tmp_path, World(), ())
    assert seen == [written]


def test_a_rank_whose_settings_are_damaged_records_why(tmp_path: Path):
    write_settings(tmp_path, resolved(ASKED))
    (tmp_path / RESOLVED_FILE).write_text("{")
    assert not run_recorded(lambda *_: pytest.fail("it has run"), tmp_path, World(), (InputError,))
    error = read_rank(tmp_path / "rank-0.jsonl").error
    assert error
    assert "damaged: resolved.json: it is not JSON" in error["message"]
    assert error["traceback"] == ""


def test_a_folder_that_holds_no_run_here_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"holds no run on this host: there is no resolved\.json in it"):
        refuse_missing([tmp_path])
    write_settings(tmp_path, resolved(ASKED))
    refuse_missing([tmp_path])
