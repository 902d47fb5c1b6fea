"""gradsync train: one run."""

from __future__ import annotations

import signal

from gradsync.cli.commands import Train
from gradsync.cli.output import print_failures, print_json, show_sections, summary_with_folder
from gradsync.config import RunConfig
from gradsync.library.runs.nodes import on_nodes
from gradsync.record import Run


def train(command: Train) -> int:
    from gradsync.draw.console import make_console
    from gradsync.exhibit.columns import choose, metric_names
    from gradsync.exhibit.runs.sections import sections
    from gradsync.launch import run_in_turn
    from gradsync.library.runs.check import check
    from gradsync.live.progress import WatchRun

    asked = on_nodes(command.run)
    if command.print:
        return print_start(asked)
    choose(command.columns, metric_names(asked))
    console = make_console(command.json)
    with WatchRun(console, asked.log_every) as watch:
        (run,) = run_in_turn(check([asked]), watch)
        if command.json:
            print_json(summary_with_folder(run))
        else:
            show_sections(sections([run], command.columns, pictures=False), console, command.details)
            console.print(f"\n{run.name}", soft_wrap=True)
        print_failures([run])
    return exit_code(run)


def print_start(asked: RunConfig) -> int:
    from gradsync.launch import printed
    from gradsync.library.runs.check import check

    print(printed(*check([asked], to_start=False)).rstrip("\n"))
    return 0


def exit_code(run: Run) -> int:
    if run.status == "completed":
        return 0
    return 128 + signal.Signals[run.stopped_by] if run.stopped_by else 1
