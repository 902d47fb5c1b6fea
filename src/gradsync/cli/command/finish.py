"""gradsync finish: the summary of a run that was started by hand."""

from __future__ import annotations

from gradsync.cli.command.show import show
from gradsync.cli.command.train import exit_code
from gradsync.cli.commands import Finish, Show


def finish(command: Finish) -> int:
    from gradsync import launch

    run = launch.finish(command.run, command.anyway)
    show(Show(runs=(run.folder,), json=command.json))
    return exit_code(run)
