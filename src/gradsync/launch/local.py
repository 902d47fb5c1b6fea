"""Processes on this machine or on its emulated nodes, each started and watched by the command itself.

If one fails, all end; a run with servers goes on without the workers it can spare.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from gradsync.cluster import namespaces
from gradsync.config import Resolved
from gradsync.launch.outcome import Outcome
from gradsync.launch.processes import (
    POLL_SECONDS,
    SHUTDOWN_SECONDS,
    WORKER,
    StoppedRanks,
    end_group,
    has_ended,
    rank_environment,
    rank_words,
    start,
    starts,
    stop_all,
)
from gradsync.launch.reach import Emulated, emulated
from gradsync.parent import signals_held
from gradsync.rank.store import LOOPBACK, bound_store
from gradsync.record import log_file

LAST_WORDS_SECONDS = 1.0  # for the other ranks to record the error they get when one is lost
LAST_WORDS_BETWEEN_NODES = 5.0  # where they notice it over the network

Running = dict[int, "subprocess.Popen[bytes]"]


def launch(config: Resolved, folders: Sequence[Path], program: str = WORKER) -> Outcome:
    """Start every rank as a process of its own and wait."""
    with emulated(config) if config.is_emulated else nullcontext() as nodes:
        store = meeting_point(nodes)  # in this process, as it must outlive every rank
        spare = config.spare_workers if len(folders) == 1 else 0  # the next run needs them all
        running: Running = {}
        (folders[0] / "logs").mkdir(exist_ok=True)
        try:
            for rank in range(config.processes):
                running[rank] = start_rank(nodes, config, rank, program, folders, store)
            return watch(running, config, folders[0], spare)
        finally:
            with signals_held():
                stop_all(running.values(), SHUTDOWN_SECONDS)


def meeting_point(nodes: Emulated | None) -> Any:
    """The rendezvous store, where all ranks can reach it: at the switch if the nodes are emulated."""
    if nodes is None:
        return bound_store(LOOPBACK)
    with namespaces.inside(nodes.cluster.namespace("switch")):
        return bound_store(nodes.cluster.address("switch"))


def start_rank(
    nodes: Emulated | None, config: Resolved, rank: int, program: str, folders: Sequence[Path], store: Any
) -> subprocess.Popen[bytes]:
    """``nodes``: None if the run has no emulated nodes."""
    places, words = config.places, rank_words(sys.executable, program, folders)
    own = {
        "RANK": str(rank),
        "WORLD_SIZE": str(config.processes),
        "LOCAL_RANK": str(places[:rank].count(places[rank])),  # its index among the ranks on its node
        "LOCAL_WORLD_SIZE": str(places.count(places[rank])),
        "MASTER_ADDR": store.host,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # tells torch that the store exists already
    }
    out, err = (log_file(folders[0], rank, stream) for stream in ("out", "err"))
    with open(out, "ab") as output, open(err, "ab") as errors:
        return start(
            nodes.command(places[rank], words, {}) if nodes else words,
            {**rank_environment(config), **os.environ, **own},
            output,
            errors,
            at_our_end=signal.SIGKILL,
        )


def watch(running: Running, config: Resolved, folder: Path, spare: int) -> Outcome:
    """Wait until all ranks have ended, a server is lost, or more workers are lost than the run can spare."""
    lost: dict[int, int] = {}
    stopped = StoppedRanks(config.timeout)
    while running:
        lost |= failed(running)
        for rank in stopped.overdue({rank: process.pid for rank, process in running.items()}):
            lost[rank] = -signal.SIGSTOP
            end_group(running.pop(rank))
        too_many = len(lost) > spare or bool(set(lost) & set(config.server_ranks))
        if too_many or (lost and not begun(config, folder)):
            return Outcome(exit_codes=lost | last_failures(running, config))
        time.sleep(POLL_SECONDS)
    return Outcome(lost=lost)


def failed(running: Running) -> dict[int, int]:
    """rank -> exit code of those that have failed since the last look. All that have ended leave ``running``."""
    ended = [rank for rank, process in running.items() if has_ended(process)]
    return {rank: code for rank in ended if (code := end_group(running.pop(rank)))}


def last_failures(running: Running, config: Resolved) -> dict[int, int]:
    """The failures of the other ranks, which get a moment to notice that one is lost and record it."""
    found: dict[int, int] = {}
    until = time.monotonic() + (LAST_WORDS_BETWEEN_NODES if config.is_emulated else LAST_WORDS_SECONDS)
    while running and time.monotonic() < until:
        found |= failed(running)
        time.sleep(POLL_SECONDS / 5)
    return found


def begun(config: Resolved, folder: Path) -> bool:
    """Whether every rank has found the others. Until then, they would wait in vain for a lost one."""
    return len(starts(folder, config.processes)) == config.processes
