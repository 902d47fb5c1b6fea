"""One damaged run among good ones: every command shows the good ones and names the other."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gradsync.cli.main import main
from gradsync.config import RunConfig
from gradsync.record import Run, rank_file, write_json
from made_up import made_up

ALL_REDUCE = RunConfig(model="logistic", strategy="all-reduce", workers=2, steps=6)
LOCAL = RunConfig(model="logistic", strategy="local", steps=6)

Called = tuple[int, str, str]
Call = Callable[..., Called]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """A command in this process: exit code, output, errors."""

    def run(*words: str | Path) -> Called:
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """local, all-reduce, and one more to be damaged."""
    out = tmp_path / "runs"
    return [made_up(out, LOCAL), made_up(out, ALL_REDUCE, wire=0.01), made_up(out, ALL_REDUCE, wire=0.02)]


def not_utf8(run: Run) -> str:
    (run.folder / "summary.json").write_bytes(b'{"status": "\xff"}')
    return "summary.json: it is not JSON"


def a_list(run: Run) -> str:
    write_json(run.folder / "summary.json", [run.summary.to_dict()])
    return "summary.json: it is"


def a_folder(run: Run) -> str:
    (run.folder / "summary.json").unlink()
    (run.folder / "summary.json").mkdir()
    return "summary.json: it is not a file"


def a_billion_workers(run: Run) -> str:
    write_json(run.folder / "config.json", run.config | {"workers": 10**9})
    return "config.json: --workers is 1000000000"


def null_row_of_an_unfinished_run(run: Run) -> str:
    (run.folder / "summary.json").unlink()
    with open(rank_file(run.folder, 1), "a") as file:
        file.write("null\n")
    return "rank-1.jsonl, line"


def deep(run: Run) -> str:
    (run.folder / "config.json").write_text("[" * 100_000)
    return "config.json: it is nested too deeply"


def cut_off(run: Run) -> str:
    path = run.folder / "resolved.json"
    path.write_bytes(path.read_bytes()[:100])
    return "resolved.json: it is not JSON"


def no_threads(run: Run) -> str:
    write_json(run.folder / "resolved.json", run.resolved.to_dict() | {"threads": None})
    return "resolved.json: --threads is None: it must be a whole number"


DAMAGES = [
    not_utf8,
    a_list,
    a_folder,
    a_billion_workers,
    null_row_of_an_unfinished_run,
    deep,
    cut_off,
    no_threads,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_good_ones_are_shown_and_the_damaged_one_is_named(
    runs: list[Run], call: Call, tmp_path: Path, damage: Callable[[Run], str]
):
    reason = damage(runs[2])
    folder, listed = runs[0].folder.parent, f"{runs[2].folder}: damaged: {reason}"
    for flags in ([], ["--ledger"]):
        code, out, _ = call("show", *flags, folder)
        assert code == 0
        assert listed in out
        assert "\nlocal " in out and "\nall-reduce " in out
    code, out, _ = call("show", "--json", folder)
    shown = json.loads(out)
    assert (code, [item["status"] for item in shown]) == (0, ["completed", "completed", "damaged"])
    assert shown[2]["folder"] == str(runs[2].folder)
    assert shown[2]["reason"].startswith(reason)
    code, _, err = call("report", folder, "-o", tmp_path / "report.json")
    assert code == 0
    assert f"left out: {listed}" in err
    assert len(json.loads((tmp_path / "report.json").read_text())["sections"][0]["exhibits"][0]["rows"]) == 2
    code, out, _ = call("trace", folder, "-o", tmp_path / "trace.json")
    assert (code, out.split(":")[0]) == (0, str(tmp_path / "trace.json"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_alone_is_a_sentence(runs: list[Run], call: Call, tmp_path: Path, damage: Callable[[Run], str]):
    reason = damage(runs[2])
    commands = [["show"], ["show", "--json"], ["report", "-o", tmp_path / "r.json"], ["trace"], ["finish"]]
    for command in commands:
        code, out, err = call(command[0], runs[2].folder, *command[1:])
        assert (code, out) == (2, "")
        assert f"{runs[2].folder}: damaged: {reason}" in err
        assert "Traceback" not in err


def test_a_run_whose_rows_are_damaged_is_shown_and_not_drawn(runs: list[Run], call: Call, tmp_path: Path):
    """Its summary is whole: the table has it. Charts would be made of its rows."""
    rank_file(runs[2].folder, 0).write_text("garbled\n")
    assert call("show", runs[2].folder)[0] == 0
    code, _, err = call("report", runs[0].folder.parent, "-o", tmp_path / "r.json")
    assert code == 0
    assert f"left out: {runs[2].folder}: damaged: rank-0.jsonl, line 1: it is not JSON" in err
    code, _, err = call("trace", runs[2].folder)
    assert code == 2
    assert "rank-0.jsonl, line 1" in err


def test_what_can_be_read_is_finished_if_told_so(runs: list[Run], call: Call):
    null_row_of_an_unfinished_run(runs[2])
    code, _, err = call("finish", runs[2].folder)
    assert code == 2
    assert "rank-1.jsonl, line" in err and "--anyway" in err
    code, out, _ = call("finish", "--anyway", "--json", runs[2].folder)
    (summary,) = json.loads(out)
    assert (code, summary["status"], summary["steps"]) == (1, "failed", 6)
    assert "damaged: rank-1.jsonl, line" in summary["error"]["message"]
    assert call("show", runs[2].folder)[0] == 0


def test_a_copy_of_a_ranks_file_is_not_a_rank(runs: list[Run], call: Call, tmp_path: Path):
    (runs[1].folder / "rank-0 (copy).jsonl").write_text("anything")
    assert call("show", "--ledger", runs[1].folder)[0] == 0
    assert call("trace", runs[1].folder, "-o", tmp_path / "t.json")[0] == 0


ESCAPE = "\x1b]0;owned\x07\x1b[31m"


def test_escapes_in_a_record_do_not_reach_the_terminal(call: Call, tmp_path: Path):
    error = {"rank": 0, "type": "E", "message": f"m{ESCAPE}", "traceback": "", "log": [f"log{ESCAPE}"]}
    run = made_up(tmp_path / f"out{ESCAPE}", ALL_REDUCE, wire=0.01)
    assert run.summary
    named = {"model": f"model{ESCAPE}", "strategy": f"mine{ESCAPE}"}
    odd = run.summary.to_dict() | {"status": "failed", "error": error, **named}
    odd["cluster"] = {"run_delay_percent": {f"node{ESCAPE}": 50.0}}
    for rank in odd["ranks"]:
        rank["node"], rank["network"]["source"] = f"node{ESCAPE}", f"[/red]{ESCAPE}"
    write_json(run.folder / "summary.json", odd)
    broken = made_up(tmp_path / f"out{ESCAPE}", ALL_REDUCE)
    (broken.folder / "summary.json").write_text('{"status": "' + ESCAPE)
    report = tmp_path / "report"
    for words in (
        ["show"],
        ["show", "--ledger"],
        ["show", "--json"],
        ["report", "-o", f"{report}.md"],
        ["report", "-o", f"{report}.html"],
        ["report", "-o", f"{report}.tex"],
        ["trace", "-o", tmp_path / "trace.json"],
    ):
        code, out, err = call(words[0], run.folder.parent, *words[1:])
        assert code == 0, err
        assert "\x1b" not in out + err and "\x07" not in out + err
        if words == ["show"]:
            assert all(rf"{name}\x1b]0;owned\x07\x1b[31m" in out for name in ("mine", "model", "m", "node", "out"))
    for path in tmp_path.glob("report.*"):
        assert "\x1b" not in path.read_text()
    code, _, err = call("show", broken.folder)
    assert (code, "\x1b" in err) == (2, False)


@pytest.mark.parametrize(
    ("form", "begins"), [("json", "{"), ("html", "<!DOCTYPE html>"), ("md", "# "), ("latex", "\\documentclass")]
)
def test_a_report_goes_through_a_pipe_alone(runs: list[Run], call: Call, tmp_path: Path, form: str, begins: str):
    """The pipe is still there afterwards, and nothing was put beside it."""
    pipe = tmp_path / "place" / "pipe"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        content = pool.submit(pipe.read_text)
        code, out, _ = call("report", runs[0].folder, "--format", form, "-o", pipe)
    assert (code, out) == (0, "")
    assert content.result().startswith(begins)
    assert list(pipe.parent.iterdir()) == [pipe]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_of_a_folder_the_newest_run_is_drawn(runs: list[Run], call: Call):
    """Whatever its name."""
    os.utime(runs[1].folder / "config.json", (2e9, 2e9))
    code, out, _ = call("trace", runs[0].folder.parent)
    assert (code, out.split(":")[0]) == (0, str(runs[1].folder / "trace.json"))


def test_a_trace_goes_where_a_link_leads(runs: list[Run], call: Call, tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "t.json")
    code, out, err = call("trace", runs[1].folder, "-o", tmp_path / "link")
    assert (code, out) == (0, "")
    assert "6 steps" in err
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert (tmp_path / "link").is_symlink()
