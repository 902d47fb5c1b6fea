"""Where a line becomes a row, and a file a run: whatever is in them, that or one kind of error comes of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradsync.config import RunConfig
from gradsync.ledger.summary import summarize
from gradsync.ledger.trace import trace
from gradsync.record import (
    DamagedRecord,
    RankLog,
    RankRecord,
    Run,
    rank_files,
    read_rank,
    read_rows,
    read_run,
    record_of,
    records_until_damage,
    rows_so_far,
    write_json,
)
from gradsync.record.checked import read_summary
from gradsync.record.rows import TRAINING, decode
from gradsync.record.shape import Wrong
from gradsync.record.summaries import RunSummary
from made_up import made_up, rank_rows, resolved, start_row, step_row

CONFIG = resolved(RunConfig(model="logistic", strategy="all-reduce", workers=2, batch_size=8, steps=7, epochs=None))
RANKS = [rank_rows(CONFIG, rank, 7, 5, 0.1, 0.05, 0.5, 1.0, 8.0) for rank in range(2)]
KINDS = [
    {"kind": "clock", "offset": 0.0, "bound": 1e-6, "time": 5.0},
    {"kind": "links", "links": {"10.0.0.1": [2e6, 0.5]}},
    {"kind": "round-trip", "round_trip": 0.001},
    {"kind": "push", "worker": 0, "update": 1, "staleness": 0, "applied": True, "begin": 1.0, "seconds": 0.1},
    {"kind": "lost", "worker": 1, "message": "gone"},
    {"kind": "goodbye", "worker": 1},
    {"kind": "end", "time": 9.0, "parameters_sha256": "a", "buffers_sha256": "b"},
    {"kind": "error", "type": "E", "message": "m", "traceback": "", "lost_peer": False, "time": 9.0},
]
ROWS = [*RANKS[0], *KINDS]


def line(row: Any) -> bytes:
    return json.dumps(row).encode() + b"\n"


def test_rows_as_ranks_write_them_are_read_as_they_are():
    assert [decode(line(row), TRAINING) for row in ROWS] == ROWS


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"null\n", "its kind is None"),
        (b"[]\n", "its kind is None"),
        (b"\n", "not JSON"),
        (b'{"kind": "step"\n', "not JSON"),
        (b"\xff\xfe\n", "not JSON.*utf-8"),
        (b'{"kind": "stpe"}\n', "its kind is 'stpe', not one of .*step"),
        (b'{"kind": ["step"]}\n', r"its kind is \['step'\]"),
        (line(step_row() | {"loss": "low"}), "loss is 'low', not a number"),
        (line(step_row(step=0)), "step is 0, not a whole number from 1"),
        (line(step_row(seconds=0)), "seconds is 0, not a number"),
        (line(step_row(correct=33)), "correct is 33 of 32"),
        (line(step_row(begin=1.0)), "first_collective is missing"),
        (line(step_row(phases=[["data", 0.0]])), "collectives is missing"),
        (line(step_row(samples=10**30)), "samples is 10*, not"),
        (b'{"kind": "step", "step": ' + b"9" * 5000 + b"}\n", "not JSON|step is"),
        (b'{"kind": "step", "step": NaN}\n', "not JSON: NaN"),
        (b'{"kind": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "nested too deeply"),
        (line(start_row(world_size=10**9)), "world_size is 1000000000"),
        (line(start_row(setup_payload=[["x", 1]])), r"setup_payload\[\] is"),
    ],
)
def test_a_damaged_row_is_named_by_file_line_and_field(tmp_path: Path, content: bytes, reason: str):
    path = tmp_path / "rank-3.jsonl"
    path.write_bytes(line(step_row()) + content + line(step_row(2)))
    with pytest.raises(DamagedRecord, match=rf"damaged: rank-3\.jsonl, line 2: .*({reason})") as caught:
        list(read_rows(path))
    assert "\n" not in str(caught.value)
    assert caught.value.folder == tmp_path
    assert list(rows_so_far(path)) == [step_row()], "who must go on has what can be read before that"


def test_the_rows_of_each_rank_until_the_damage(tmp_path: Path):
    (tmp_path / "rank-0.jsonl").write_bytes(line(step_row()) + b"null\n")
    (tmp_path / "rank-1.jsonl").write_bytes(line(step_row()) + line(step_row(2)))
    everyone, damage = records_until_damage(tmp_path, 3)
    assert [len(record.steps) for record in everyone] == [1, 2, 0]
    assert [record.is_empty for record in everyone] == [False, False, True]
    assert damage and "rank-0.jsonl, line 2" in str(damage)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_opened(tmp_path: Path, make: Any):
    make(tmp_path / "rank-0.jsonl")
    with pytest.raises(DamagedRecord, match=r"rank-0\.jsonl: it is not a file"):
        list(read_rows(tmp_path / "rank-0.jsonl"))


def test_only_files_named_after_a_rank_are_the_runs(tmp_path: Path):
    for name in ("0", "10", "2", "0 (copy)", "x", "-1", "01", "²", "99999999", "999999"):
        (tmp_path / f"rank-{name}.jsonl").touch()
    assert list(rank_files(tmp_path)) == [0, 2, 10]


ODD = st.recursive(
    st.sampled_from([None, True, 0, -1, 1, 10**9, 10**30, 1e308, -0.5, 1e-300, "", "x", "\x1b[2J", "0", [], {}])
    | st.floats(allow_nan=False)
    | st.integers(-3, 3),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(["", "a", "0"]), inside, max_size=2)
    ),
    max_leaves=5,
)


def places_in(value: Any, *where: Any) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [where, *(place for key, item in items for place in places_in(item, *where, key))]


def changed(value: Any, where: tuple[Any, ...], new: Any, drop: bool) -> Any:
    if not where:
        return new
    copy = value.copy()
    if drop and len(where) == 1:
        del copy[where[0]]
    else:
        copy[where[0]] = changed(value[where[0]], where[1:], new, drop)
    return copy


def or_wrong(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Wrong as wrong:
        return wrong


@given(st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_a_row_with_anything_anywhere_is_a_row_or_wrong(data: st.DataObject):
    row = data.draw(st.sampled_from(ROWS))
    where = data.draw(st.sampled_from(places_in(row)))
    odd = changed(row, where, data.draw(ODD), data.draw(st.booleans()))
    found = or_wrong(lambda: decode(line(odd), TRAINING))
    assert found["kind"] in TRAINING if isinstance(found, dict) else str(found)


@given(st.binary(max_size=200))
def test_bytes_are_a_row_or_wrong(content: bytes):
    with pytest.raises(Wrong):
        decode(content, TRAINING)


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_decoded_can_be_summed_up_drawn_and_read_back(data: st.DataObject):
    """Who reads rows relies on what was checked and on nothing else: not on their order, nor that all are there."""
    ranks: list[RankRecord] = []
    for rows in RANKS:
        mixed = (
            data.draw(st.lists(st.sampled_from([*rows, *KINDS]), max_size=15)) if data.draw(st.booleans()) else rows
        )
        kept = []
        for row in mixed:
            if data.draw(st.integers(0, 9)) == 0:
                row = changed(
                    row, data.draw(st.sampled_from(places_in(row))), data.draw(ODD), data.draw(st.booleans())
                )
            try:
                kept.append(decode(line(row), TRAINING))
            except Wrong:
                continue
        ranks.append(record_of(kept))
    summary = summarize(CONFIG, ranks, None, 1.0)
    assert read_summary(json.loads(json.dumps(summary.to_dict())), of_probe=False) == summary
    assert json.dumps(trace(ranks))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_up(tmp_path, RunConfig(model="logistic", strategy="all-reduce", workers=2, steps=6), wire=0.01)


@given(st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_summary_with_anything_anywhere_is_a_summary_or_wrong(run: Run, data: st.DataObject):
    summary = json.loads((run.folder / "summary.json").read_text())
    where = data.draw(st.sampled_from(places_in(summary)))
    odd = changed(summary, where, data.draw(ODD), data.draw(st.booleans()))
    found = or_wrong(lambda: read_summary(odd, of_probe=False))
    assert found.status in ("completed", "failed") if isinstance(found, RunSummary) else str(found)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("config.json", "{", "config.json: it is not JSON"),
        ("config.json", '{"model": 5}', "config.json: --model is 5"),
        ("config.json", '{"model": "x", "workers": 1000000000}', "config.json: --workers is 1000000000"),
        ("resolved.json", "{", "resolved.json: it is not JSON"),
        ("resolved.json", '{"model": "x"}', "resolved.json: .* is missing"),
        ("summary.json", "", "summary.json: it is not JSON"),
        ("summary.json", "[1]", "summary.json: it is .1., not a table"),
        ("summary.json", '{"schema": 3, "status": "completed"}', "summary.json: .* is missing"),
    ],
)
def test_a_damaged_file_is_named_with_its_field(run: Run, name: str, text: str, reason: str):
    (run.folder / name).write_text(text)
    with pytest.raises(DamagedRecord, match=f"{run.folder.name}: damaged: {reason}"):
        read_run(run.folder)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "failed"}, "status is failed, which its error contradicts"),
        ({"hidden_comm": None}, "are there for some ranks and not for others"),
        ({"seconds_per_step": None}, "no seconds_per_step"),
        ({"straggler": {"rank": 2, "late_steps": 1, "steps": 1, "seconds": 1.0, "cause": "data"}}, "straggler.rank"),
        ({"staleness": {"histogram": {"x": 1}, "dropped": 0}}, "has a key that is not a whole number"),
        ({"cluster": {"bandwidth": "fast", "run_delay_percent": {}}}, "cluster: --bandwidth is 'fast'"),
        ({"window": "some"}, "window: --window is 'some'"),
        ({"window_first": 7}, "window_first and window_last are not a window"),
    ],
)
def test_what_no_run_leaves_behind_is_damage(run: Run, changes: dict[str, Any], reason: str):
    assert run.summary
    write_json(run.folder / "summary.json", run.summary.to_dict() | changes)
    with pytest.raises(DamagedRecord, match=reason):
        read_run(run.folder)


def test_a_summary_of_schema_3_was_of_steps_2_to_40(run: Run):
    assert run.summary
    new = ("window", "window_first", "window_last", "later")
    old = {name: value for name, value in run.summary.to_dict().items() if name not in new}
    write_json(run.folder / "summary.json", old | {"schema": 3})
    found = read_run(run.folder).summary
    assert isinstance(found, RunSummary)
    assert (found.window, found.window_first, found.window_last, found.later) == ("2:40", 2, 6, None)


def test_the_rows_of_a_rank_by_kind_in_their_order(tmp_path: Path):
    (tmp_path / "rank-0.jsonl").write_bytes(b"".join(map(line, ROWS)))
    record = read_rank(tmp_path / "rank-0.jsonl")
    assert record.start == ROWS[0]
    assert record.steps == [row for row in ROWS if row["kind"] == "step"]
    assert record.hosts == [row for row in ROWS if row["kind"] == "host"]
    assert [record.pushes, record.lost, record.goodbyes] == [[KINDS[3]], [KINDS[4]], [KINDS[5]]]
    assert [record.end, record.error, record.round_trip] == [KINDS[6], KINDS[7], KINDS[2]]
    assert record_of([]) == RankRecord() and RankRecord().is_empty


def test_settings_that_are_new_or_not_known_do_not_matter(run: Run):
    old = {name: value for name, value in run.config.items() if name != "label_smoothing"}
    write_json(run.folder / "config.json", old | {"setting_of_tomorrow": [1]})
    assert read_run(run.folder).config == run.config


def test_strings_are_safe_to_show_wherever_they_stand(tmp_path: Path):
    log = RankLog(tmp_path, 0)
    log.write(**start_row(node="\x1b[31mnode", model="a\x9bb", host={"processor": "\u202ex"}))
    log.write("error", type="E", message="two\nlines\x07", traceback="\ud800", lost_peer=False, time=1.0)
    log.close()
    start, error = read_rows(tmp_path / "rank-0.jsonl")
    assert (start["node"], start["model"], start["host"]["processor"]) == (r"\x1b[31mnode", r"a\x9bb", r"\u202ex")
    assert (error["message"], error["traceback"]) == ("two\nlines\\x07", r"\ud800")
