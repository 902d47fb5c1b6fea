"""gradsync probe: the collective benchmark."""

from __future__ import annotations

from contextlib import nullcontext

from gradsync.cli.commands import Probe
from gradsync.cli.study import carry_out_study
from gradsync.library.runs.nodes import on_nodes


def probe(command: Probe) -> int:
    from gradsync.draw.console import make_console
    from gradsync.draw.export import write_table
    from gradsync.exhibit.probe import points_table
    from gradsync.live.progress import WatchPoints
    from gradsync.record.writing import is_own_file

    study = on_nodes(command.run)
    watch = WatchPoints(make_console(command.json), study)

    def before_anything_starts() -> None:
        if command.csv and is_own_file(command.csv):
            write_table(points_table([]), command.csv)  # fails now if the file is not writable

    done = carry_out_study(study, command, watch=lambda begun, runs: nullcontext(watch), first=before_anything_starts)
    if command.csv:
        write_table(points_table(done.runs), command.csv)
    return done.exit_code()
