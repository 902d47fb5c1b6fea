"""What the progress line of a study says about the run under way."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from gradsync.config import RunConfig
from gradsync.live.study_progress import WatchStudy
from gradsync.record import RankLog, write_json
from made_up import start_row, step_row


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
    assert first.startswith("run 2 of 3: learning rate 0.1, ddp, 2 workers, batch 64")
    assert second.startswith("run 3 of 3: learning rate 0.2, ddp, 2 workers, batch 64; about ")


def folder_of(path: Path) -> Path:
    path.mkdir()
    return path
