from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.errors import InputError
from gradsync.record import (
    RankLog,
    create_folder,
    finite,
    rank_file,
    rank_records,
    read_rows,
    read_run,
    strict_json,
    write_json,
)
from made_up import step_row


def test_runs_started_together_get_folders_of_their_own(tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: create_folder(tmp_path, "run"), range(24)))
    assert len(set(folders)) == 24
    assert all(folder.is_dir() for folder in folders)


def test_unwritable_output_folder_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot write to the output folder.*--out"):
        create_folder(tmp_path / "file" / "runs", "run")


def test_rows_are_on_disk_at_once_and_a_half_written_one_is_left_out(tmp_path: Path):
    log = RankLog(tmp_path, 0)
    log.write(**step_row(loss=float("nan")))
    path = rank_file(tmp_path, 0)
    with open(path, "a") as file:
        file.write('{"kind": "step", "st')
    assert list(read_rows(path)) == [step_row(loss=None)]
    log.close()


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
)


@given(json_like)
def test_anything_can_be_written_as_strict_json(value: object):
    assert json.loads(strict_json(value)) == json.loads(json.dumps(finite(value), allow_nan=False)) == finite(value)


def test_json_files_appear_whole(tmp_path: Path):
    write_json(tmp_path / "summary.json", {"a": [1.5, float("inf")]})
    assert json.loads((tmp_path / "summary.json").read_text()) == {"a": [1.5, None]}
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_folder_without_summary_is_unfinished_and_one_without_config_no_run(tmp_path: Path):
    with pytest.raises(InputError, match="not a run folder"):
        read_run(tmp_path)
    write_json(tmp_path / "config.json", {"model": "vgg11"})
    assert read_run(tmp_path).status == "unfinished"
    assert read_run(tmp_path).stopped_by is None


def test_stamps_of_later_steps_can_be_left_out(tmp_path: Path):
    log = RankLog(tmp_path, 0)
    for step in (1, 2):
        measured = step_row(step, begin=0.0, first_collective=0, payload={})
        log.write(**measured, phases=[["data", 0.0]], collectives=[])
    kept, thin = rank_records(tmp_path, 1, stamps_until=1)[0].steps
    assert "phases" in kept
    assert thin == measured
