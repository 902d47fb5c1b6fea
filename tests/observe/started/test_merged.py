"""Folders with different ranks of one run become one; anything else is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Cli
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.observe.started.merged import merge
from gradsync.record import SUMMARY_FILE, Run, rank_file, rank_files
from made_up import made_up


def part(out: Path, rank: int, **changes: object) -> Path:
    """The folder of one host, on which one rank of three was recorded."""
    run = made_up(out, RunConfig(**{"workers": 3, "strategy": "ddp", "steps": 6, "batch_size": 30, **changes}))
    (run.folder / SUMMARY_FILE).unlink()
    for other in {0, 1, 2} - {rank}:
        rank_file(run.folder, other).unlink()
    with open(rank_file(run.folder, rank), "a") as file:
        file.write('{"kind": "end", "time": 1.0}\n')
    return run.folder


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    return [part(tmp_path / f"host{rank}", rank) for rank in (2, 0, 1)]


def test_all_ranks_are_in_the_merged_run(parts: list[Path], tmp_path: Path):
    run = merge(parts, tmp_path / "whole")
    assert isinstance(run, Run) and run.summary
    assert run.status == "completed" and len(run.summary.ranks) == 3 and run.summary.steps == 6
    assert run.summary.ledger  # of steps that all ranks made
    assert [list(rank_files(folder)) for folder in parts] == [[2], [0], [1]]


def test_the_command_shows_the_merged_run_and_refuses_in_a_sentence(parts: list[Path], tmp_path: Path, cli: Cli):
    done = cli("merge", *map(str, parts), "-o", "whole")
    assert done.returncode == 0, done.stderr
    assert "ddp: the ledger of a step, rank by rank" in done.stdout
    assert all(f"rank {rank}" in done.stdout for rank in range(3))
    assert json.loads(cli("show", "whole", "--json").stdout)[0]["status"] == "completed"
    refused = cli("merge", *map(str, parts[:2]), "--out", "half")
    assert refused.returncode == 2 and "rank 1 of 3 is in none of the folders" in refused.stderr
    assert "Traceback" not in refused.stderr and not (tmp_path / "half").exists()


def test_the_merged_run_lies_beside_the_first(parts: list[Path]):
    assert merge(parts, None).folder == parts[0].with_name(f"{parts[0].name}-merged")
    with pytest.raises(InputError, match="is there already: choose another folder with --out"):
        merge(parts, None)


def test_what_is_no_whole_run_is_refused(parts: list[Path], tmp_path: Path):
    out = tmp_path / "whole"
    with pytest.raises(InputError, match="merge needs two folders or more"):
        merge(parts[:1], out)
    with pytest.raises(InputError, match="rank 1 of 3 is in none of the folders"):
        merge(parts[:2], out)
    with pytest.raises(InputError, match=r"rank 2 is in .* and in .*: each rank of a run is recorded once"):
        merge([*parts, part(tmp_path / "again", 2)], out)
    with pytest.raises(InputError, match="not a run folder"):
        merge([*parts, tmp_path], out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"strategy": "all-reduce"}, "strategy is ddp in one and all-reduce"), ({"batch_size": 60}, "batch size is 30")],
)
def test_folders_of_different_runs_are_refused(
    parts: list[Path], tmp_path: Path, changes: dict[str, object], what: str
):
    with pytest.raises(InputError, match=f"are not of the same run: {what}"):
        merge([*parts[:2], part(tmp_path / "other", 1, **changes)], None)
