"""Bytes as the kernel counted them, on this rank's own interface or on its own TCP sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import psutil

from gradsync.meter.connections import FAMILIES, Connections


@dataclass(frozen=True)
class Counts:
    """Bytes since the interface or the sockets came up."""

    sent: int
    received: int


class Counter(Protocol):
    source: str

    def read(self) -> Counts: ...

    def close(self) -> None: ...


class Interface:
    """Everything on a network interface, headers included: correct where this rank is its only user."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.source = f"interface {name}"
        self.read()

    def read(self) -> Counts:
        now = psutil.net_io_counters(pernic=True)[self._name]
        return Counts(now.bytes_sent, now.bytes_recv)

    def close(self) -> None:
        pass


class Sockets:
    """The TCP sockets of this process: works on loopback too.

    A socket's counts are lost when it closes, so its last reading is kept.
    """

    source = "sockets"

    def __init__(self) -> None:
        self._connections = Connections()
        self._seen: dict[int, Counts] = {}
        # Nearly all the time goes into the query; the group's sockets are of one family and live as long as it does.
        self._families = [family for family in FAMILIES if self._look([family])] or FAMILIES

    def read(self) -> Counts:
        self._look(self._families)
        counts = self._seen.values()
        return Counts(sum(item.sent for item in counts), sum(item.received for item in counts))

    def _look(self, families: Iterable[int]) -> bool:
        """Note what the open sockets of this process have counted; return whether there are any."""
        found = {item.inode: Counts(item.sent, item.received) for item in self._connections.established(families)}
        self._seen |= found
        return bool(found)

    def close(self) -> None:
        self._connections.close()


def choose_counter(interface: str | None, ranks_on_node: int) -> Counter | None:
    """The best counter available; None where the kernel offers none (not Linux, no netlink)."""
    choices: list[Callable[[], Counter]] = [Sockets]
    if interface and interface not in ("lo", "lo0") and ranks_on_node == 1:
        choices.insert(0, partial(Interface, interface))
    for choice in choices:
        with suppress(Exception):  # whatever it is, training goes on without these figures
            return choice()
    return None
