from __future__ import annotations

import errno
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

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


def test_a_signal_handler_may_write_a_row_wherever_it_interrupts_another(tmp_path: Path):
    """Python runs handlers between any two lines."""
    log, between = RankLog(tmp_path, 0), []

    def interrupt(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not RankLog.write.__code__:
            return None
        if event == "line":
            sys.settrace(None)
            between.append(frame.f_lineno)
            log.write("between", line=frame.f_lineno)
            sys.settrace(interrupt)
        return interrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        log.write("row")
    finally:
        sys.settrace(before)
    assert len(between) > 2
    assert sorted(row.get("line", 0) for row in written(tmp_path)) == [0, *between]


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in rank_file(folder, 0).read_text().splitlines()]


class FullDisk:
    """Takes ten bytes of every row, and no more until there is room."""

    def __init__(self, file: Any) -> None:
        self.file, self.room, self.fresh = file, False, True

    def write(self, row: bytes) -> int:
        self.fresh = self.room or not self.fresh
        if self.fresh and not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(row if self.room else row[:10])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_nothing_stays_of_a_row_for_which_the_disk_has_no_room(tmp_path: Path):
    log = RankLog(tmp_path, 0)
    log.write("first")
    log._file = full = FullDisk(log._file)  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space left"):
        log.write("lost", values=[1, 2, 3])
    full.room = True
    log.write("last")
    log.close()
    assert [row["kind"] for row in written(tmp_path)] == ["first", "last"]


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
