"""From a config to a finished run folder: start the ranks, wait, write summary.json, whatever happens."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

from gradsync.cluster import spec
from gradsync.config import Placement, RunConfig
from gradsync.errors import signal_name
from gradsync.launch import independent, local, mpi, torchrun
from gradsync.launch.outcome import Outcome, explain, lost_ranks
from gradsync.launch.processes import WORKER
from gradsync.record import Row, Run, create_folder, model_file, rank_files, rank_rows, write_json
from gradsync.summary import LAST, summarize

Watch = Callable[..., AbstractContextManager[Any]]

__all__ = ["Watch", "run", "run_in_turn", "signals_held", "start"]


def unwatched(*_: Path) -> AbstractContextManager[None]:
    return nullcontext()


def run(config: RunConfig, watch: Watch = unwatched) -> Run:
    """One run. It fails in its record, not here: the caller looks at the status.

    ``watch`` is entered with the folder while the ranks are at work, to show how far they are.
    """
    return run_in_turn([config], watch)[0]


def run_in_turn(configs: Sequence[RunConfig], watch: Watch = unwatched) -> list[Run]:
    """One run after another. Those that can have the same processes get them: starting takes seconds.

    The runs after one that fails get new processes; after an interruption there are none.
    """
    configs = [spec.filled(config) for config in configs]
    folders = [create_folder(Path(config.out), folder_name(config.resolved())) for config in configs]
    for config, folder in zip(configs, folders, strict=True):
        write_json(folder / "config.json", config.to_dict())
    runs: list[Run] = []
    while len(runs) < len(configs):
        _, group = next(groupby(configs[len(runs) :], lambda config: start_of(config.resolved())))
        these = slice(len(runs), len(runs) + len(list(group)))
        for folder in folders[these]:
            forget(folder)
        runs += run_until_failure(configs[these], folders[these], watch)
        if runs[-1].stopped_by:
            break
    return runs


def start_of(config: RunConfig) -> tuple[Any, ...]:
    """Two runs for which this is the same can be made by the same processes."""
    here = (launcher(config), config.processes, config.mpiexec)
    if config.launcher == "local" and not config.is_emulated:
        return here
    placement = (getattr(config, item.name) for item in fields(Placement))
    return (*here, *config.places, config.inject, *placement)


Launch = Callable[[RunConfig, Sequence[Path], str], Outcome]
"""Start every rank of a resolved config with these run folders and this module, and wait for their end."""


def launcher(config: RunConfig) -> Launch:
    if config.launcher == "mpi":
        return mpi.launch
    if config.servers and not config.hosts:
        return independent.launch
    return torchrun.launch if config.is_emulated or config.hosts else local.launch


def forget(folder: Path) -> None:
    """What ranks have written that went on to this run while another one was failing in the run before."""
    for path in [*rank_files(folder).values(), *folder.glob("logs/*")]:
        path.unlink()


def start(config: RunConfig, folders: Sequence[Path], module: str, watch: Watch) -> Outcome:
    """Start the ranks of a resolved config and wait for their end; whatever happens is in the outcome."""
    try:
        with watch(*folders):
            return launcher(config)(config, folders, module)
    except KeyboardInterrupt as stop:
        return Outcome(signal=signal_name(stop))
    except Exception as error:
        return Outcome(failure=error)


def run_until_failure(configs: Sequence[RunConfig], folders: Sequence[Path], watch: Watch) -> list[Run]:
    """One start of the processes: the runs that were completed, and the one that failed."""
    resolved = [config.resolved() for config in configs]
    begin = time.time()
    outcome = start(resolved[0], folders, WORKER, watch)
    ended = time.time()
    runs = []
    with signals_held():
        for config, run_config, folder in zip(configs, resolved, folders, strict=True):
            everyone = rank_rows(folder, run_config.processes, stamps_until=LAST)
            ends = {n: row["time"] for n, rows in enumerate(everyone) for row in rows if row["kind"] == "end"}
            others_to_come = folder != folders[-1]
            completed = len(ends) + len(outcome.lost) == len(everyone) and (others_to_come or outcome.went_well)
            end = max(ends.values()) if completed else ended
            reason = None if completed else explain(outcome, everyone, folder)
            summary = summarize(run_config, everyone, reason, end - begin, lost_ranks(outcome, everyone))
            keep_newest_model(folder, everyone)
            write_json(folder / "summary.json", summary)
            runs.append(Run(folder, config.to_dict(), summary))
            if not completed:
                break
            begin = end
    return runs


def keep_newest_model(folder: Path, ranks: Sequence[Sequence[Row]]) -> None:
    """Workers of a server each leave the model they had; the run's is that of the one that saw the most updates."""
    seen = {rank: max((row.get("update", 0) for row in rows), default=0) for rank, rows in enumerate(ranks)}
    left = [rank for rank in sorted(seen, key=lambda rank: -seen[rank]) if model_file(folder, rank).exists()]
    for number, rank in enumerate(left):
        if number == 0:
            model_file(folder, rank).replace(model_file(folder))
        else:
            model_file(folder, rank).unlink()


@contextmanager
def signals_held() -> Iterator[None]:
    """A second Ctrl-C must not cost the record of the run: it arrives when the block has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def folder_name(config: RunConfig) -> str:
    model, strategy = (
        re.sub(r"[^A-Za-z0-9]+", "-", str(name)).strip("-") for name in (config.model, config.strategy)
    )
    return f"{model}-{strategy}-{config.workers}w"
