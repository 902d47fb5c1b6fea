"""gradsync compare: the same work under several strategies."""

from __future__ import annotations

from gradsync.cli.commands import Compare
from gradsync.cli.study import carry_out_study
from gradsync.library.runs.nodes import on_nodes


def compare(command: Compare) -> int:
    from gradsync.draw.console import make_console
    from gradsync.exhibit.columns import choose, metric_names
    from gradsync.live.progress import WatchRun

    study = on_nodes(command.run)
    choose(study.columns, metric_names(study))

    def watch(begun: int, runs: int) -> WatchRun:
        return WatchRun(make_console(command.json), study.log_every, begun, runs)

    return carry_out_study(study, command, watch=watch).exit_code()
