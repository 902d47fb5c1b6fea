"""What the progress line of a study says about the run under way."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from gradsync.config import RunConfig
from gradsync.live.study_progress import WatchStudy, plain, varied_in
from gradsync.record import RankLog, write_json
from made_up import start_row, step_row


def test_the_settings_in_which_runs_differ_are_named():
    plan = [
        RunConfig(lr=lr, workers=2, options={"bucket-mb": size}).to_dict() for lr in (0.1, 0.2) for size in (1, 5)
    ]
    assert varied_in(plan) == {"lr", "options.bucket-mb"}
    assert plain(plan[0])["options.bucket-mb"] == "1"


def test_what_is_said_of_every_run_is_not_said_twice():
    plan = [RunConfig(workers=workers, batch_size=12 * workers, out=str(workers)).to_dict() for workers in (1, 2)]
    assert varied_in(plan) == set()


def test_runs_are_counted_in_lines_with_what_differs(tmp_path: Path):
    out = io.StringIO()
    asked = [RunConfig(strategy="ddp", workers=2, lr=lr, steps=4) for lr in (0.1, 0.2)]
    folders = [tmp_path / name for name in "ab"]
    for folder, config in zip(folders, asked, strict=True):
        write_json(folder_of(folder) / "config.json", config.to_dict())
    plan = [config.to_dict() for config in asked]
    with WatchStudy(Console(file=out, width=300), plan, runs=3) as watch, watch(*folders):
        for folder in folders:
            log = RankLog(folder, 0)
            log.write(**start_row(steps=4))
            log.write(**step_row(4))
            log.write("end", time=1.0)
    first, second = out.getvalue().splitlines()
    assert first.startswith("run 2 of 3: ddp, 2 workers, batch 64, lr 0.1")
    assert second.startswith("run 3 of 3: ddp, 2 workers, batch 64, lr 0.2; about ")


def folder_of(path: Path) -> Path:
    path.mkdir()
    return path
