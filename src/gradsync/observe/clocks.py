"""How far this host's clock is from rank 0's, over the store through which the ranks of a script have met.

1. Every rank says which kernel it runs on. Those on rank 0's kernel share its clock, and are done.
2. Another rank writes a ping, and rank 0 answers with the time on its clock, ten times.
3. The shortest round trip counts, as in comm/clock.py.

This is repeated every minute, in a thread and over a connection of its own: no message is sent in the script's group.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch.distributed as dist

from gradsync.comm.clock import ROUNDS, ClockOffset
from gradsync.rank.world import World
from gradsync.record import RankLog

EVERY_SECONDS = 60.0
KEYS = "gradsync/watch/clock"


def compare_clocks(here: World, log: RankLog) -> None:
    """Nothing is done where one host has all ranks, and where nodes are emulated: these share a kernel."""
    if here.size == 1 or here.local_size == here.size or here.interface or not dist.is_initialized():
        return
    threading.Thread(target=until_the_store_is_gone, args=[here, log], name="clocks", daemon=True).start()


def until_the_store_is_gone(here: World, log: RankLog) -> None:
    with suppress(Exception):  # the figures of several hosts are then as good as their clocks agree
        own = dist.PrefixStore(KEYS, dist.distributed_c10d._get_default_store().clone())  # type: ignore[attr-defined]
        measure(own, here, log, time.sleep)


def measure(store: Any, here: World, log: RankLog, pause: Any) -> None:
    store.set(f"kernel/{here.rank}", here.kernel)
    if here.rank == 0:
        kernels = {rank: store.get(f"kernel/{rank}").decode() for rank in range(1, here.size)}
        others = [rank for rank, kernel in kernels.items() if kernel != here.kernel]
        turn = 0
        while others:
            for rank in others:
                answer(store, rank, turn)
            turn += 1
    elif store.get("kernel/0").decode() != here.kernel:
        turn = 0
        while True:
            log.write("clock", **asdict(ask(store, here.rank, turn)))
            turn += 1
            pause(EVERY_SECONDS)


def answer(store: Any, rank: int, turn: int) -> None:
    for number in range(ROUNDS):
        store.get(f"ping/{rank}/{turn}/{number}")
        store.set(f"pong/{rank}/{turn}/{number}", repr(time.monotonic()))


def ask(store: Any, rank: int, turn: int) -> ClockOffset:
    """This rank's clock minus rank 0's."""
    found = []
    for number in range(ROUNDS):
        begin = time.monotonic()
        store.set(f"ping/{rank}/{turn}/{number}", "")
        answered = float(store.get(f"pong/{rank}/{turn}/{number}"))
        end = time.monotonic()
        found.append(ClockOffset((begin + end) / 2 - answered, (end - begin) / 2))
    return min(found, key=lambda offset: offset.bound)
