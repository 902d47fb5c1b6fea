"""gradsync finish: the summary of a run that was started by hand."""

from __future__ import annotations

from gradsync.cli.command.show import show
from gradsync.cli.command.train import exit_code
from gradsync.cli.commands import Finish, Show


def finish(command: Finish) -> int:
    from gradsync import launch
    from gradsync.live.trackers.running import tracked

    run = launch.finish(command.run, command.anyway)
    with tracked(run.folder, run.asked.trackers):
        show(Show(runs=(run.folder,), json=command.json))
    return exit_code(run)
