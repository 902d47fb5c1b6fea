"""Processes on this machine that may go one by one: a run with servers outlives some of its workers."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from gradsync.cluster import namespaces
from gradsync.config import RunConfig
from gradsync.launch.outcome import Outcome
from gradsync.launch.processes import (
    LOOPBACK,
    SHUTDOWN_SECONDS,
    WORKER,
    end_sessions,
    handled_signals,
    rank_logs,
    ready_to_start,
)
from gradsync.launch.reach import Emulated, emulated
from gradsync.record import rank_file, read_rows

POLL_SECONDS = 0.1
LAST_WORDS_SECONDS = 1.0  # for the others to write down what they make of a lost one


def launch(config: RunConfig, folders: Sequence[Path], module: str = WORKER) -> Outcome:
    """Start every rank by itself. The run fails when a server is lost, or more workers than it can spare."""
    with emulated(config) if config.is_emulated else nullcontext() as nodes:
        return launch_on(nodes, config, folders, module)


def launch_on(nodes: Emulated | None, config: RunConfig, folders: Sequence[Path], module: str) -> Outcome:
    """``nodes``: None for processes that need no node of their own."""
    from torch.distributed.elastic.multiprocessing import SignalException, start_processes

    store = meeting_point(nodes)  # here: it must outlive every rank
    common = {
        "WORLD_SIZE": str(config.processes),
        "MASTER_ADDR": store.host,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    running: dict[int, Any] = {}
    spare = config.spare_workers if len(folders) == 1 else 0  # a run to come needs them all
    lost: dict[int, int] = {}
    with ready_to_start(config, {"TORCHELASTIC_SIGNALS_TO_HANDLE": handled_signals()}):
        try:
            for rank, place in enumerate(config.places):
                entrypoint, *words = rank_command(nodes, place, module, folders)
                running[rank] = start_processes(
                    name=f"rank-{rank}",
                    entrypoint=entrypoint,
                    args={0: tuple(words)},
                    envs={0: common | {"RANK": str(rank)} | local_rank(config.places, rank)},
                    logs_specs=rank_logs(folders[0]),
                )
            while running:
                for rank, exit_code in ended(running).items():
                    del running[rank]
                    if exit_code:
                        lost[rank] = exit_code
                too_many = len(lost) > spare or bool(set(lost) & set(config.server_ranks))
                if too_many or (lost and not begun(config, folders[0])):
                    time.sleep(LAST_WORDS_SECONDS)
                    lost |= {rank: code for rank, code in ended(running).items() if code}
                    return Outcome(exit_codes=lost)
                time.sleep(POLL_SECONDS)
        except SignalException as stopped:
            return Outcome(signal=stopped.sigval.name)
        finally:
            for context in running.values():
                context.close(signal.SIGTERM, SHUTDOWN_SECONDS)
            if lost:
                end_sessions(folders[0], config.processes)
    return Outcome(lost=lost)


def meeting_point(nodes: Emulated | None) -> Any:
    """The store through which ranks find each other, where all of them reach it: at the switch, between nodes."""
    from torch.distributed import TCPStore

    if nodes is None:
        return TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)
    with namespaces.inside(nodes.cluster.namespace("switch")):
        return TCPStore(nodes.cluster.address("switch"), 0, is_master=True, wait_for_workers=False)


def rank_command(nodes: Emulated | None, place: int, module: str, folders: Sequence[Path]) -> list[str]:
    words = [sys.executable, "-u", "-m", module, *map(str, folders)]
    return nodes.command(place, words, {}) if nodes else words


def local_rank(places: Sequence[int], rank: int) -> dict[str, str]:
    """Which of the ranks on its node it is, and of how many."""
    place = places[rank]
    return {"LOCAL_RANK": str(places[:rank].count(place)), "LOCAL_WORLD_SIZE": str(places.count(place))}


def begun(config: RunConfig, folder: Path) -> bool:
    """Whether every rank has found the others. Until then they would wait in vain for one that is lost."""
    starts = [next(read_rows(rank_file(folder, rank)), None) for rank in range(config.processes)]
    return all(row is not None and row["kind"] == "start" for row in starts)


def ended(running: dict[int, Any]) -> dict[int, int]:
    """rank -> exit code of those that have ended since the last look."""
    found = {}
    for rank, context in running.items():
        result = context.wait(0)
        if result is not None:
            found[rank] = result.failures[0].exitcode if result.failures else 0
    return found
