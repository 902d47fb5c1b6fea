"""Where the progress of runs goes that were started from Python."""

from __future__ import annotations

from pathlib import Path

from gradsync.config import RunConfig
from gradsync.live.display import Display
from gradsync.live.progress import WatchRun
from made_up import made_up


def test_without_progress_nothing_is_printed(capsys, tmp_path: Path):
    display = Display(progress=False)
    display.console.print("a line")
    run = made_up(tmp_path, RunConfig(model="logistic", strategy="local"))
    for maker in (display.of_runs(20), display.of_study()):
        assert maker is not None
        with maker(0, 2) as watch, watch(run.folder):
            pass
    assert capsys.readouterr() == ("", "")


def test_a_script_prints_what_the_command_line_does():
    display = Display()
    assert isinstance(display.of_runs(20)(0, 1), WatchRun)
    assert display.of_study() is None
