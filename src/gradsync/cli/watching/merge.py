"""gradsync merge: one run from folders with different ranks of it."""

from __future__ import annotations

from gradsync.cli.command.show import show
from gradsync.cli.command.train import exit_code
from gradsync.cli.commands import Show
from gradsync.cli.watching.commands import Merge


def merge(command: Merge) -> int:
    from gradsync.observe.started.merged import merge as merged

    run = merged(command.folders, command.out)
    show(Show(runs=(run.folder,), json=command.json))
    return exit_code(run)
