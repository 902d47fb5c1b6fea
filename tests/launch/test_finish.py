"""The end of a run that was started by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch.finish import write_summary
from gradsync.launch.outcome import Outcome
from gradsync.record import RankLog, read_resolved, read_run, write_settings
from made_up import resolved, start_row, step_row

END = {"time": 110.0, "parameters_sha256": "x", "buffers_sha256": "y"}
ERROR = {"type": "ValueError", "message": "no", "traceback": "", "lost_peer": False, "time": 110.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = RunConfig(model="logistic", workers=2, batch_size=8, steps=1, measure=False)
    write_settings(tmp_path, resolved(config))
    return tmp_path


def write(folder: Path, rank: int, **last: dict) -> None:
    log = RankLog(folder, rank)
    log.write(**start_row(rank=rank, began=100.0))
    log.write(**step_row())
    for kind, row in last.items():
        log.write(kind, **row)
    log.close()


def test_the_summary_is_written_when_all_have_ended(folder: Path):
    write(folder, 0, end=END)
    with pytest.raises(InputError, match=r"has no record of rank 1: the run has 2 ranks\. HINT"):
        launch.finish(folder)
    write(folder, 1, end=END | {"time": 112.0})
    run = launch.finish(folder)
    assert (run.status, run.summary.steps, run.summary.total_seconds) == ("completed", 1, 12.0)
    assert read_run(folder).summary == run.summary
    with pytest.raises(InputError, match="has been finished already"):
        launch.finish(folder)


def test_a_rank_that_failed_makes_the_run_fail(folder: Path):
    write(folder, 0)
    write(folder, 1, error=ERROR)
    run = launch.finish(folder)
    assert run.status == "failed"
    assert (run.summary.error.rank, run.summary.error.message) == (1, "no")


def test_a_run_without_an_end_is_finished_only_if_told_so(folder: Path):
    write(folder, 0, end=END)
    write(folder, 1)
    with pytest.raises(InputError, match=r"no end yet in the record of rank 1\. HINT"):
        launch.finish(folder)
    run = launch.finish(folder, anyway=True)
    assert run.summary.error.message == "no end in the record of rank 1 after 1 step"


def test_garbage_of_a_rank_fails_its_run_and_not_the_command(folder: Path):
    write(folder, 0, end=END)
    write(folder, 1)
    with open(folder / "rank-1.jsonl", "ab") as file:
        file.write(b'\xff\x00 {"kind": null}\n')
    write(folder, 1, end=END)
    run, _ = write_summary(read_resolved(folder), folder, Outcome(), 100.0, 112.0)
    assert run.status == "failed"
    assert run.summary.error.type == "DamagedRecord"
    assert "rank-1.jsonl, line 3: it is not JSON" in run.summary.error.message
    assert read_run(folder).summary == run.summary


def test_what_a_launcher_is_given_can_be_printed_and_nothing_else_happens(tmp_path: Path):
    settings = {"model": "logistic", "workers": 2, "out": str(tmp_path / "runs")}
    text = launch.printed(resolved(RunConfig(**settings, launcher="slurm")))
    (made,) = (tmp_path / "runs").iterdir()
    # Slurm does not make logs/
    assert sorted(path.name for path in made.iterdir()) == ["config.json", "logs", "resolved.json"]
    assert text.startswith("#!/bin/bash\n#SBATCH")
    assert text.endswith(f"gradsync finish {made}\n")
    with pytest.raises(InputError, match=r"start a run on a real cluster\. HINT"):
        launch.printed(resolved(RunConfig(**settings)))


@pytest.mark.parametrize("words", [["--ntasks-per-node", "3"], ["--ntasks-per-node=3"], ["--ntasks_per_node", "3"]])
def test_slurms_name_for_workers_per_node(words: list[str]):
    from gradsync.cli.arguments import parse

    command = parse(["train", "--launcher", "slurm", "--nodes", "2", *words, "--print"])
    assert command.print
    assert command.run.workers_per_node == 3
