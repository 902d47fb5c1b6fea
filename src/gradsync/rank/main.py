"""What both programs of a rank do: join the group, do the job for every folder, record why it failed, and end."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import torch

from gradsync.comm import Comm, TorchComm, lifeline, mpi
from gradsync.config import Resolved, objects
from gradsync.config.plugin import users_traceback
from gradsync.config.values import counted
from gradsync.errors import NOT_RECORDED, InputError, plainly
from gradsync.meter.recorder import Recorder, Stopwatch
from gradsync.rank import facts, world
from gradsync.rank.facts import error_facts
from gradsync.record import OBJECTS_FILE, RESOLVED_FILE, RankLog, log_file, read_resolved

Job = Callable[[Resolved, Path, world.World, RankLog], None]
"""What a rank does for one run folder, with the settings in it."""


def run_all(
    job: Job, folders: Sequence[Path], expected_errors: tuple[type[Exception], ...] = (InputError,)
) -> NoReturn:
    """Do the job for every folder, until one fails. Expected errors need no traceback."""
    try:
        here = world.discover()
        if here.launcher in world.MPI_LAUNCHERS:  # by which mpiexec ends the others: it is no error of theirs
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        refuse_missing(folders)
    except InputError as error:
        print(f"gradsync: {error}", file=sys.stderr)
        end(2)
    code = 0
    try:
        for folder in folders:
            print_into(folder, here.rank)
            if not run_recorded(job, folder, here, expected_errors):
                code = 1
                break
        if code == 0:  # else leaving the group would wait for peers that will never come
            world.leave()
    except BaseException as error:  # the record could not be written: the launcher must learn of it anyway
        with suppress(OSError):
            print(users_traceback(error), file=sys.stderr, flush=True)
        code = NOT_RECORDED
    end(code)


def refuse_missing(folders: Sequence[Path]) -> None:
    if not folders:
        raise InputError("no run folder was given. Give one made by gradsync train --print.")
    for folder in folders:
        if not (folder / RESOLVED_FILE).exists():
            raise InputError(f"{folder} holds no run on this host: there is no {RESOLVED_FILE} in it.")


def print_into(folder: Path, rank: int) -> None:
    """From now on what this process prints goes into the logs of this run, unless it does already."""
    (folder / "logs").mkdir(exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    for stream, descriptor in (("out", sys.stdout.fileno()), ("err", sys.stderr.fileno())):
        with open(log_file(folder, rank, stream), "ab") as file:
            if not os.path.sameopenfile(file.fileno(), descriptor):
                os.dup2(file.fileno(), descriptor)


def run_recorded(job: Job, folder: Path, here: world.World, expected_errors: tuple[type[Exception], ...]) -> bool:
    """Make one run. If it fails, its record says why."""
    log = RankLog(folder, here.rank)
    try:
        config = read_resolved(folder)
        objects.take(folder / OBJECTS_FILE)
        if config.transport == "mpi":
            mpi.check_world(config.processes, started_by="srun" if here.launcher == "slurm" else "mpiexec")
        job(config, folder, here, log)
    except BaseException as error:  # SystemExit too: a rank that just exits leaves the others waiting for it
        row = error_facts(error, expected_errors)
        log.write("error", **row)
        print(row["traceback"] or plainly(error), file=sys.stderr, flush=True)
        return False
    finally:
        log.close()
        facts.Idle.since = time.time()
    return True


def join(config: Resolved, here: world.World, device: torch.device) -> Comm:
    """Join the group; this rank's end of it. It must have as many processes as the run is for."""
    meter = Recorder(device) if config.measure else Stopwatch()
    if config.transport == "mpi":
        return mpi.MpiComm(meter)
    if config.processes != here.size:
        hint = f" HINT: SLURM_NTASKS is {here.size}: make it {config.processes}." if here.launcher == "slurm" else ""
        raise InputError(
            f"the run has {counted(config.processes, 'rank')}, but {counted(here.size, 'process', 'processes')} "
            f"started.{hint}"
        )
    world.join(here, device, config.transport)
    lifeline.tie(config.timeout)
    return TorchComm(here.rank, here.size, meter)


def end(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the disk is full
            stream.flush()
    for child in multiprocessing.active_children():  # loader processes, which os._exit would leave behind
        child.terminate()
        child.join()
    if code == 0 and mpi.leave():
        # Through the C library's exit, which calls mpich's own handler: without it, Hydra considers the rank lost
        # and kills the others on its node (35 of 80 bare programs, against 0 of 145).
        ctypes.CDLL(None).exit(0)
    # Not sys.exit: a gloo thread that is still releasing its last tensor while the interpreter shuts down aborts the
    # process ("terminate called without an active exception", in 6 of 80 processes of a bare script).
    # After a failure, this rank does not wait for anything either: the launcher ends the others.
    os._exit(code)
