"""The commands. Parses first and imports torch after, so that --help answers at once."""

from __future__ import annotations

import json as jsons
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from gradsync.arguments import parse
from gradsync.commands import (
    Cluster,
    Compare,
    Finish,
    Probe,
    Report,
    Reproduce,
    Show,
    StudyRuns,
    Trace,
    Train,
    Verify,
)
from gradsync.config import RunConfig
from gradsync.errors import InputError, plainly, signal_name
from gradsync.parent import stops_raised
from gradsync.record import DamagedRecord, Run, UnreadableRecord
from gradsync.study.settings import Study
from gradsync.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from gradsync.report.collect import Found


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The entry point: 0 all well, 1 a run failed, 2 the input was wrong, 128 + the signal that interrupted it."""
    # Before torch is imported: it warns of every address that has no name, as those of emulated nodes.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        with stops_raised():
            code = dispatch(parse(list(sys.argv[1:] if argv is None else argv)))
            sys.stdout.flush()
    except InputError as error:
        print(f"gradsync: {printable(error)}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt as stop:
        code = 128 + signal.Signals[signal_name(stop)]
    except BrokenPipeError:
        sys.stdout = None  # the reader has gone; nothing is left to flush
        code = 128 + signal.SIGPIPE
    except OSError as error:  # the disk is full, a folder was deleted meanwhile, too few file descriptors, ...
        sys.stdout = None  # what could not be written to a full disk would be tried again
        print(f"gradsync: {plainly(error)}", file=sys.stderr)
        code = 1
    sys.exit(code)


def dispatch(command: Any) -> int:
    if isinstance(command, Cluster):
        from gradsync.cli_cluster import cluster

        return cluster(command.action)
    if isinstance(command, (Train, Compare, Verify, Probe, StudyRuns)) and wants_nodes(command.run):
        from gradsync.cluster import privilege, spec

        privilege.ensure()  # while there is one thread
        command.run = spec.filled(command.run)
    if isinstance(command, Train) and command.print:
        return print_start(command.run)
    if isinstance(command, Train):
        return train([command.run], command, many=False)
    if isinstance(command, Compare):
        return compare(command)
    if isinstance(command, StudyRuns):
        from gradsync.cli_study import study

        return study(command)
    if isinstance(command, Reproduce):
        return reproduce(command)
    if isinstance(command, Report):
        from gradsync.cli_report import report

        return report(command)
    if isinstance(command, Finish):
        return finish(command)
    if isinstance(command, Verify):
        return verify(command)
    if isinstance(command, Probe):
        return probe(command)
    if isinstance(command, Show):
        return show(command)
    if isinstance(command, Trace):
        return trace(command)
    from gradsync.cli_data import data

    return data(command.action)


def wants_nodes(asked: Any) -> bool:
    """Whether nodes are to be emulated, by what is asked or by one of a study's runs."""
    return asked.is_emulated or (isinstance(asked, Study) and any(config.is_emulated for config in asked.plan()))


def reproduce(command: Reproduce) -> int:
    if command.cluster and not command.list and (command.all or command.reports):
        from gradsync.cluster import privilege

        try:
            privilege.ensure()  # while there is one thread
        except InputError as error:
            raise InputError(f"{error} Or, on this machine's processes alone: --no-cluster.") from None
    from gradsync.cli_study import reproduce

    return reproduce(command)


def compare(command: Compare) -> int:
    from gradsync.strategies import option_types
    from gradsync.study.compare import run_configs

    options = {name: set(option_types(name)) for name in command.run.strategies}
    return train(run_configs(command.run, options), command, many=True)


def train(configs: list[RunConfig], command: Train | Compare, many: bool) -> int:
    """Run one config or several, then print the table of what they did."""
    from gradsync.check import check
    from gradsync.report.columns import choose
    from gradsync.report.console import make_console
    from gradsync.report.ledger import by_strategy
    from gradsync.report.progress import Watch
    from gradsync.report.summary import failure_text, host_limits, lost_texts, runs_table
    from gradsync.report.workers import has_stale_gradients, workers_view
    from gradsync.study.compare import compare

    choose(command.columns)
    check(configs)
    console = make_console(command.json)
    runs: list[Run] = []
    for run in compare(configs, Watch(console, configs[0].log_every)):
        runs.append(run)
        if run.status != "completed":
            print(failure_text(run), file=sys.stderr, flush=True)
    if command.json:
        print_json([summary_with_folder(run) for run in runs], many)
    else:
        console.print()
        console.print(runs_table(runs, console.width, command.columns))
        shown = [run.summary or {} for run in runs if not many or has_stale_gradients(run.summary or {})]
        views = [by_strategy(runs), *map(workers_view, shown)]
        for view in filter(None, views):
            console.print()
            console.print(view)
        for text in (text for run in runs for text in (*lost_texts(run), *host_limits(run))):
            console.print(text, markup=False, soft_wrap=True)
        console.print("\n" + "\n".join(str(run.folder) for run in runs), markup=False, soft_wrap=True)
    if many:
        write_report(runs, sys.stderr if command.json else sys.stdout)
    return max(exit_code(run) for run in runs)


def write_report(runs: list[Run], stream: TextIO) -> None:
    """Beside the runs, called after the first of them."""
    from gradsync.cli_report import write_beside
    from gradsync.cli_study import typed

    first = runs[0].folder
    path = write_beside(first.parent / f"{first.name}-compare.html", [run.folder for run in runs], typed())
    if path:
        print(path, file=stream)


def print_start(config: RunConfig) -> int:
    from gradsync.check import check
    from gradsync.launch import printed

    check([config], to_start=False)
    print(printed(config).rstrip("\n"))
    return 0


def finish(command: Finish) -> int:
    from gradsync.launch import finish

    run = finish(command.run, command.anyway)
    show(Show(runs=(run.folder,), json=command.json))
    return exit_code(run)


def exit_code(run: Run) -> int:
    if run.status == "completed":
        return 0
    return 128 + signal.Signals[run.stopped_by] if run.stopped_by else 1


def verify(command: Verify) -> int:
    from gradsync.check import check_verify
    from gradsync.report.console import make_console
    from gradsync.report.progress import WatchMany
    from gradsync.report.verify import conclusion, findings_table
    from gradsync.study.verify import verify

    config = command.run
    strategies, model = check_verify(config)
    console = make_console(command.json)
    watch = WatchMany(console, 1 + len(config.runs(strategies)))
    folder, findings = verify(config, strategies, model, watch)
    if command.json:
        print_json([asdict(item) for item in findings], many=True)
    else:
        console.print(findings_table(findings, config))
        console.print(f"\n{conclusion(findings)}\n{folder}", markup=False, soft_wrap=True)
    return int(any(item.verdict in ("wrong", "failed") for item in findings))


def probe(command: Probe) -> int:
    from gradsync.check import check_probe
    from gradsync.report.console import make_console
    from gradsync.report.progress import WatchPoints
    from gradsync.report.summary import failure_text, host_limits
    from gradsync.study.probe import probe, write_csv
    from gradsync.writing import is_own_file

    config = command.run
    check_probe(config)
    if command.csv and is_own_file(command.csv):
        write_csv(command.csv, [])  # before anything is measured: it may not be writable
    console = make_console(command.json)
    run = probe(config, WatchPoints(console, config))
    assert run.summary
    if run.status != "completed":
        print(failure_text(run), file=sys.stderr, flush=True)
    if command.csv:
        write_csv(command.csv, run.summary["points"])
    if command.json:
        print_json([summary_with_folder(run)], many=False)
    else:
        console.print()
        show_probe(run, console, whole=True)
        for text in host_limits(run):
            console.print(text, markup=False, soft_wrap=True)
    return exit_code(run)


def trace(command: Trace) -> int:
    from gradsync.meter.trace import trace
    from gradsync.record import rank_files, rank_rows, write_json
    from gradsync.report.collect import find
    from gradsync.writing import is_own_file

    if command.until < 1:
        raise InputError(f"--until is {command.until}: it must be 1 or more.")
    found = find([command.run])
    refuse_nothing([command.run], found)
    if not found.runs:
        raise InputError(f"{found.probes[-1].name}: a collective benchmark has no steps to draw.")
    run = found.runs[-1]
    path = command.out or run.folder / "trace.json"
    ranks = rank_rows(run.folder, max(rank_files(run.folder), default=-1) + 1, stamps_until=command.until)
    steps = [row for rows in ranks for row in rows if row["kind"] == "step"]
    if not any("phases" in row for row in steps):
        raise InputError(f"{run.name} has no stamps to draw: it was not measured, or ended before its first step.")
    try:
        write_json(path, trace(ranks, command.until), indent=None)
    except OSError as error:
        raise InputError(f"cannot write {printable(path)}: {error.strerror}.") from None
    last = max(row["step"] for row in steps)
    shown = f"steps 1 to {command.until} of {last} (--until)" if last > command.until else f"{last} steps"
    print(
        f"{printable(path)}: {shown}. Open it in ui.perfetto.dev or chrome://tracing.",
        file=sys.stdout if is_own_file(path) else sys.stderr,
    )
    return 0


def show(command: Show) -> int:
    from gradsync.report.collect import find
    from gradsync.report.columns import choose
    from gradsync.report.console import make_console
    from gradsync.report.ledger import by_rank, measured
    from gradsync.report.summary import failure_text, host_limits, lost_texts, runs_table
    from gradsync.report.workers import workers_view

    choose(command.columns)
    found = find(command.runs)
    refuse_nothing(command.runs, found)
    if command.json:
        shown = [summary_with_folder(run) for run in (*found.runs, *found.probes)]
        print_json([*shown, *map(reason_with_folder, found.unreadable)], many=True)
        return 0
    console = make_console(json=False)
    if found.runs:
        console.print(runs_table(found.runs, console.width, command.columns))
    for run in found.runs if command.ledger else ():
        console.print()
        figures = measured(run)
        if figures:
            console.print(by_rank(figures))
        else:
            text = f"{run.name}: no ledger: it was run with --no-measure, or has no step after the first."
            console.print(text, soft_wrap=True)
        if view := workers_view(figures or {}):
            console.print()
            console.print(view)
    for run in found.probes:
        show_probe(run, console, whole=not found.runs)
    for run in (*found.runs, *found.probes):
        for text in (*lost_texts(run), *host_limits(run)):
            console.print(text, soft_wrap=True)
        if run.status != "completed":
            console.print(failure_text(run).splitlines()[0], soft_wrap=True)
    for error in found.unreadable:
        console.print(str(error), soft_wrap=True)
    return 0


def refuse_nothing(given: Sequence[Path], found: Found) -> None:
    """What was given must hold something that can be shown."""
    if found.runs or found.probes:
        return
    if found.unreadable:
        raise InputError("nothing can be shown:\n" + "\n".join(map(str, found.unreadable)))
    raise InputError(
        f"{', '.join(map(printable, given))} holds no run: there is no config.json in it or in a folder below it. "
        "Give the folders that `gradsync train` or `gradsync compare` printed, for instance runs/*."
    )


def show_probe(run: Run, console: Console, whole: bool) -> None:
    """A line beside runs, else the tables."""
    from gradsync.report.probe import probe_line, probe_tables

    if not whole or run.summary is None:
        console.print(probe_line(run), soft_wrap=True)
        return
    for table in probe_tables(run.summary):
        console.print(table)
        console.print()
    console.print(run.name, soft_wrap=True)


def summary_with_folder(run: Run) -> dict[str, Any]:
    return {"folder": str(run.folder), **(run.summary or {"status": run.status, "config": run.config})}


def reason_with_folder(error: UnreadableRecord) -> dict[str, Any]:
    status = "damaged" if isinstance(error, DamagedRecord) else "unreadable"
    return {"folder": str(error.folder), "status": status, "reason": error.reason}


def print_json(values: list[dict[str, Any]], many: bool) -> None:
    print(jsons.dumps(values if many else values[0], indent=2))


if __name__ == "__main__":
    main()
