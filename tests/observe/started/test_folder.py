"""The folder of a watched command, before and after it: what is refused, and why nothing was recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.observe.entrance import TRACES
from gradsync.observe.started.command import Ended
from gradsync.observe.started.folder import Commands, joined, new_folder, run_of, script_in
from gradsync.record import SUMMARY_FILE, rank_file
from made_up import made_up

WELL, KILLED = Ended(0, None), Ended(-9, None)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["python", "train.py", "--lr", "1"], "train"),
        (["torchrun", "--nproc-per-node", "2", "a/b/my script.py"], "my-script"),
        (["/usr/bin/true"], "true"),
        (["..."], "command"),
    ],
)
def test_a_folder_has_the_name_of_the_script(words: list[str], name: str):
    assert script_in(words) == name


def test_a_named_folder_is_new_and_one_to_join_need_not_be(tmp_path: Path):
    assert new_folder(tmp_path, "mine", ["x"]) == tmp_path / "mine"
    with pytest.raises(InputError, match="mine is there already: choose another --name, or --join it"):
        new_folder(tmp_path, "mine", ["x"])
    assert joined(tmp_path / "mine") == joined(tmp_path / "mine") == tmp_path / "mine"


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").touch()
    with pytest.raises(InputError, match="is not empty: a run is recorded into a folder of its own"):
        new_folder(tmp_path, "full", ["x"])
    with pytest.raises(InputError, match="cannot record into"):
        joined(tmp_path / "full" / "notes" / "below")


def test_a_finished_run_is_not_joined(tmp_path: Path):
    run = made_up(tmp_path, RunConfig(workers=2, strategy="ddp", steps=3))
    with pytest.raises(InputError, match="has a run that is finished: choose another folder to --join"):
        joined(run.folder)


@pytest.mark.parametrize(
    ("traces", "ended", "sentence"),
    [
        ([], WELL, "ended with exit code 0; no Python was started that could be seen"),
        (["python-1"], Ended(3, None), "ended with exit code 3; torch was not imported (1 Python process)"),
        (
            ["python-1", "torch-1", "torch-2"],
            KILLED,
            "was killed by signal 9; torch was imported by 2 processes, but no",
        ),
    ],
)
def test_why_nothing_was_recorded(tmp_path: Path, traces: list[str], ended: Ended, sentence: str):
    """And nothing is left behind."""
    commands = Commands(joined(tmp_path / "run"))
    for name in traces:
        (tmp_path / "run" / TRACES / name).touch()
    with pytest.raises(InputError) as caught:
        run_of(tmp_path / "run", commands, ended)
    assert sentence in str(caught.value)
    assert not (tmp_path / "run").exists()


def unfinished(folder: Path, ranks: int = 2) -> Path:
    """As the ranks of a command leave it."""
    run = made_up(folder, RunConfig(workers=2, strategy="ddp", steps=3))
    (run.folder / SUMMARY_FILE).unlink()
    for rank in range(ranks):
        with open(rank_file(run.folder, rank), "a") as file:
            file.write('{"kind": "end", "time": 1.0}\n')
    for rank in range(ranks, 2):
        rank_file(run.folder, rank).unlink()
    return run.folder


def test_the_last_command_to_end_makes_the_run(tmp_path: Path):
    folder = unfinished(tmp_path)
    (folder / TRACES).mkdir()
    one, other = Commands(folder), Commands(folder)
    other._own = other._own.with_name("command-another-1-2")
    other._own.touch()
    with pytest.raises(InputError, match=r"has ranks 0, 1 of 2 so far: the last command to end finishes it"):
        run_of(folder, one, WELL)
    assert run_of(folder, other, WELL).status == "completed"
    assert not (folder / TRACES).exists()


def test_a_command_here_that_was_killed_keeps_nobody_from_making_the_run(tmp_path: Path):
    """It could not take its trace with it. What other hosts do is not known here, where ids mean other processes."""
    folder = unfinished(tmp_path)
    code = "import sys, pathlib, gradsync.observe.started.folder as made; made.Commands(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    (left,) = (folder / TRACES).glob("command-*")
    one = Commands(folder)
    elsewhere = left.with_name("command-another-1-2")
    elsewhere.touch()
    with pytest.raises(InputError, match=r"HINT: if that was killed on another host, gradsync finish --anyway"):
        run_of(folder, one, WELL)
    elsewhere.unlink()
    assert left.exists() and run_of(folder, Commands(folder), WELL).status == "completed"


def test_ranks_that_were_recorded_elsewhere_are_asked_for(tmp_path: Path):
    folder = unfinished(tmp_path, ranks=1)
    with pytest.raises(InputError, match=r"has rank 0 of 2: the others were recorded elsewhere.*gradsync merge"):
        run_of(folder, Commands(joined(folder)), WELL)
    assert not (folder / SUMMARY_FILE).exists()


def test_a_signal_is_what_ended_the_run(tmp_path: Path):
    folder = unfinished(tmp_path, ranks=1)
    run = run_of(folder, Commands(joined(folder)), Ended(-2, "SIGINT"))
    assert run.status == "failed" and run.stopped_by == "SIGINT"
