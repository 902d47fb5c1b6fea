"""From a config to a finished run folder: start the ranks, wait, write summary.json, whatever happens."""

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

from gradsync.cluster import spec
from gradsync.config import Placement, RunConfig
from gradsync.errors import InputError, signal_name
from gradsync.launch import local, mpi, slurm, torchrun
from gradsync.launch.finish import began, finish, write_summary
from gradsync.launch.outcome import Outcome, kills_for_memory
from gradsync.launch.processes import WORKER
from gradsync.parent import signals_held, stops_raised
from gradsync.record import Run, create_folder, rank_files, write_json

Watch = Callable[..., AbstractContextManager[Any]]

__all__ = ["Watch", "finish", "printed", "run", "run_in_turn", "start", "start_of"]


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
    folders = [new_folder(config) for config in configs]
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


def new_folder(config: RunConfig) -> Path:
    """A run folder with the config in it, ready for the ranks."""
    folder = create_folder(Path(config.out), folder_name(config.resolved()))
    write_json(folder / "config.json", config.to_dict())
    return folder


def start_of(config: RunConfig) -> tuple[Any, ...]:
    """Two runs for which this is the same can be made by the same processes."""
    here = (launcher(config), config.processes, config.mpiexec)
    if config.launcher == "local" and not config.is_emulated:
        return here
    placement = (getattr(config, item.name) for item in fields(Placement))
    return (*here, *config.places, config.inject, config.transport, config.threads, *placement)


Launch = Callable[[RunConfig, Sequence[Path], str], Outcome]
"""Start every rank of a resolved config with these run folders and this program, and wait for their end."""


def launcher(config: RunConfig) -> Launch:
    return engine(config).launch


def engine(config: RunConfig) -> ModuleType:
    """It has a ``launch``, and a ``text`` if what it does can be done by hand."""
    if config.launcher == "slurm":
        return slurm
    if config.launcher == "mpi":
        return mpi
    return torchrun if config.hosts else local


def printed(config: RunConfig) -> str:
    """What starts the run, to be used by hand; its folder is there and waits."""
    resolved = config.resolved()
    text = getattr(engine(resolved), "text", None)
    if text is None or resolved.is_emulated:
        raise InputError(
            "--print shows what to give to another program on a real cluster to start a run. "
            "HINT: leave out --print, or say where: --hosts a,b or --launcher slurm."
        )
    return text(resolved, new_folder(config), WORKER)


def forget(folder: Path) -> None:
    """What ranks have written that went on to this run while another one was failing in the run before."""
    for path in [*rank_files(folder).values(), *folder.glob("logs/*")]:
        path.unlink()


def start(config: RunConfig, folders: Sequence[Path], program: str, watch: Watch) -> Outcome:
    """Start the ranks of a resolved config and wait for their end; whatever happens is in the outcome."""
    killed_before = kills_for_memory()
    try:
        with stops_raised(), watch(*folders):
            outcome = launcher(config)(config, folders, program)
        return replace(outcome, memory_ran_out=kills_for_memory() > killed_before)
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
    if resolved[0].launcher == "slurm":
        begin = began(folders[0], begin)  # it may have waited in the queue for hours
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


def folder_name(config: RunConfig) -> str:
    model, strategy = (
        re.sub(r"[^A-Za-z0-9]+", "-", str(name)).strip("-") for name in (config.model, config.strategy)
    )
    return f"{model}-{strategy}-{config.workers}w"
