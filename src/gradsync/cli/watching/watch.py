"""gradsync watch: run a command, and record what its scripts train."""

from __future__ import annotations

import sys

from gradsync.cli.watching.commands import Watch
from gradsync.errors import InputError
from gradsync.record import Run
from gradsync.text import printable


def watch(command: Watch) -> int:
    from gradsync.draw.console import say
    from gradsync.live import trackers
    from gradsync.live.trackers.running import tracked
    from gradsync.observe.entrance import environment
    from gradsync.observe.started.command import end_alike, run
    from gradsync.observe.started.folder import Commands, discard_unused, joined, new_folder, run_of

    if not command.words:
        raise InputError("no command to watch: gradsync watch -- torchrun --nproc-per-node 2 train.py")
    if command.join and command.name:
        raise InputError("you set both --join and --name: --join names the folder itself.")
    trackers.check(command.log_to)
    folder = joined(command.join) if command.join else new_folder(command.out, command.name, command.words)
    commands = Commands(folder)
    with tracked(folder, command.log_to):
        try:
            ended = run(command.words, environment(folder))
        except InputError:
            commands.discard()
            raise
        try:
            show_watched(run_of(folder, commands, ended), command)
        except InputError as error:  # the exit code stays that of the command
            say(f"gradsync: {printable(error)}", sys.stderr)
    if command.log_to:
        discard_unused(folder)
    return end_alike(ended)


def show_watched(run: Run, command: Watch) -> None:
    """After what the command has printed: on the terminal, or on stderr where stdout goes into a pipe or a file."""
    from gradsync.cli.output import print_json, show_sections, summary_with_folder
    from gradsync.draw.console import make_console, say
    from gradsync.exhibit.remarks import failures
    from gradsync.exhibit.runs.sections import sections

    if command.json:
        print_json(summary_with_folder(run), indent=None)
    else:
        console = make_console(json=not sys.stdout.isatty())
        show_sections(sections([run], pictures=False), console, command.details)
        console.print(f"\n{run.name}", soft_wrap=True)
    sys.stdout.flush()
    for line in failures([run]):  # the script has printed its own traceback
        say(line, sys.stderr)
