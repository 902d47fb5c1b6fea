"""Bytes as the kernel counted them: of this rank's own interface, or of its own TCP sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import psutil

ESTABLISHED = 1 << 1  # state TCP_ESTABLISHED as a bit mask
TCP_INFO = 1 << 1  # extension INET_DIAG_INFO as a bit mask
FAMILIES = [socket.AF_INET, socket.AF_INET6]


@dataclass(frozen=True)
class Counts:
    """Since the interface or the sockets came up."""

    sent: int
    received: int


class Counter(Protocol):
    source: str

    def read(self) -> Counts: ...

    def close(self) -> None: ...


class Interface:
    """Everything on a network interface, headers included: right where this rank has it for itself."""

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
    """The TCP sockets of this process (sock_diag): works on loopback too, needs no privileges, about 1 ms a reading.

    A socket takes its counts along when it closes, so its last reading is kept.
    """

    source = "sockets"

    def __init__(self) -> None:
        from pyroute2.netlink.diag import DiagSocket  # a quarter of a second; Linux only

        self._diag = DiagSocket()
        self._seen: dict[int, Counts] = {}
        # Nearly all the time goes into asking; the group's sockets are all of one family and live as long as it does.
        self._families = [family for family in FAMILIES if self._look(family)] or FAMILIES

    def read(self) -> Counts:
        for family in self._families:
            self._look(family)
        counts = self._seen.values()
        return Counts(sum(item.sent for item in counts), sum(item.received for item in counts))

    def _look(self, family: socket.AddressFamily) -> bool:
        """Note what the open sockets of this process have counted; whether there are any."""
        own = own_inodes()
        found = False
        for item in self._diag.get_sock_stats(family=family, states=ESTABLISHED, extensions=TCP_INFO):
            info = item.get_attr("INET_DIAG_INFO")
            if info is not None and item["idiag_inode"] in own:
                self._seen[item["idiag_inode"]] = Counts(info["tcpi_bytes_sent"], info["tcpi_bytes_received"])
                found = True
        return found

    def close(self) -> None:
        self._diag.close()


def own_inodes() -> set[int]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def choose_counter(interface: str | None, ranks_on_node: int) -> Counter | None:
    """The best counter there is; None where the kernel has none to offer (not Linux, no netlink)."""
    choices: list[Callable[[], Counter]] = [Sockets]
    if interface and interface not in ("lo", "lo0") and ranks_on_node == 1:
        choices.insert(0, partial(Interface, interface))
    for choice in choices:
        with suppress(Exception):  # whatever it is, training goes on without these figures
            return choice()
    return None
