"""From resolved settings to a finished run folder: start the ranks, wait, write summary.json, whatever happens."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

from gradsync.config import Placement, Resolved
from gradsync.config.objects import name_of
from gradsync.errors import InputError, signal_name
from gradsync.launch import local, torchrun
from gradsync.launch.finish import began, finish, write_summary
from gradsync.launch.mpi import mpiexec
from gradsync.launch.outcome import Outcome, kills_for_memory
from gradsync.launch.processes import WORKER
from gradsync.launch.slurm import job
from gradsync.parent import signals_held, stops_raised
from gradsync.record import Run, create_folder, rank_files, write_settings

Watch = Callable[..., AbstractContextManager[Any]]

__all__ = ["Watch", "finish", "printed", "run", "run_in_turn", "start", "start_of"]


def unwatched(*_: Path) -> AbstractContextManager[None]:
    return nullcontext()


def run(config: Resolved, watch: Watch = unwatched) -> Run:
    """Make one run. A failure is recorded in the run, not raised: the caller looks at the status.

    ``watch`` is entered with the folder while the ranks run, to show their progress.
    """
    return run_in_turn([config], watch)[0]


def run_in_turn(configs: Sequence[Resolved], watch: Watch = unwatched) -> list[Run]:
    """Make one run after another. Runs that can share processes do so, as starting them takes seconds.

    The runs after a failed one get new processes; after an interruption, no further run is started.
    """
    folders = [new_folder(config) for config in configs]
    runs: list[Run] = []
    while len(runs) < len(configs):
        _, group = next(groupby(configs[len(runs) :], start_of))
        these = slice(len(runs), len(runs) + len(list(group)))
        for folder in folders[these]:
            forget(folder)
        runs += run_until_failure(configs[these], folders[these], watch)
        if runs[-1].stopped_by:
            break
    return runs


def new_folder(config: Resolved) -> Path:
    """A run folder with the settings in it, ready for the ranks."""
    folder = create_folder(Path(config.out), folder_name(config))
    write_settings(folder, config)
    return folder


def start_of(config: Resolved) -> tuple[Any, ...]:
    """What the start depends on: two runs for which it is equal can share processes."""
    here = (launcher(config), config.processes, config.mpiexec)
    if config.launcher == "local" and not config.is_emulated:
        return here
    placement = (getattr(config, item.name) for item in fields(Placement))
    return (*here, *config.places, config.inject, config.transport, config.threads, *placement)


Launch = Callable[[Resolved, Sequence[Path], str], Outcome]
"""Start every rank with these run folders and this program, and wait until all have ended."""


def launcher(config: Resolved) -> Launch:
    return engine(config).launch


def engine(config: Resolved) -> ModuleType:
    """The module that starts the run: it has a ``launch``, and a ``text`` if it can also be started by hand."""
    if config.launcher == "slurm":
        return job
    if config.launcher == "mpi":
        return mpiexec
    return torchrun if config.hosts else local


def printed(config: Resolved) -> str:
    """The commands or the script that start the run by hand; its folder is created here."""
    text = getattr(engine(config), "text", None)
    if text is None or config.is_emulated:
        raise InputError(
            "--print shows the commands or the script that start a run on a real cluster. "
            "HINT: leave out --print, or say where: --hosts a,b or --launcher slurm."
        )
    return text(config, new_folder(config), WORKER)


def forget(folder: Path) -> None:
    """Remove what some ranks have already written for this run while another one failed in the run before."""
    for path in [*rank_files(folder).values(), *folder.glob("logs/*")]:
        path.unlink()


def start(config: Resolved, folders: Sequence[Path], program: str, watch: Watch) -> Outcome:
    """Start the ranks and wait until they have ended; whatever happens, the outcome describes it."""
    killed_before = kills_for_memory()
    try:
        with stops_raised(), watch(*folders):
            outcome = launcher(config)(config, folders, program)
        return replace(outcome, memory_ran_out=kills_for_memory() > killed_before)
    except KeyboardInterrupt as stop:
        return Outcome(signal=signal_name(stop))
    except Exception as error:
        return Outcome(failure=error)


def run_until_failure(configs: Sequence[Resolved], folders: Sequence[Path], watch: Watch) -> list[Run]:
    """Start the processes once; return the runs that completed and, if one failed, that one."""
    begin = time.time()
    outcome = start(configs[0], folders, WORKER, watch)
    ended = time.time()
    if configs[0].launcher == "slurm":
        begin = began(folders[0], begin)  # the job may have waited in the queue for hours
    runs = []
    with signals_held():
        for config, folder in zip(configs, folders, strict=True):
            others_to_come = folder != folders[-1]
            run, end = write_summary(config, folder, outcome, begin, ended, others_to_come)
            runs.append(run)
            if run.status != "completed":
                break
            begin = end
    return runs


def folder_name(config: Resolved) -> str:
    model, strategy = (
        re.sub(r"[^A-Za-z0-9]+", "-", name_of(name)).strip("-") for name in (config.model, config.strategy)
    )
    return f"{model}-{strategy}-{config.workers}w"
