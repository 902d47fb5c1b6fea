"""The TCP connections of this process as the kernel sees them: sock_diag, Linux, no privileges, 1 ms per call."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ESTABLISHED = 1 << 1  # state TCP_ESTABLISHED as a bit mask
TCP_INFO = 1 << 1  # extension INET_DIAG_INFO as a bit mask
FAMILIES = [socket.AF_INET, socket.AF_INET6]


@dataclass(frozen=True)
class Connection:
    inode: int
    peer: str
    """The address of the other end."""

    sent: int
    received: int
    busy_seconds: float
    """How long sent bytes were in flight, not yet acknowledged."""

    silent: bool
    """The other end acknowledges neither retransmissions nor keep-alive probes."""


class Connections:
    def __init__(self) -> None:
        from pyroute2.netlink.diag import DiagSocket  # takes a quarter of a second to import; Linux only

        self._diag = DiagSocket()

    def established(self, families: Iterable[int] = FAMILIES) -> Iterator[Connection]:
        own = own_inodes()
        for family in families:
            for item in self._diag.get_sock_stats(family=family, states=ESTABLISHED, extensions=TCP_INFO):
                info = item.get_attr("INET_DIAG_INFO")
                if info is not None and item["idiag_inode"] in own:
                    yield connection(item, info)

    def close(self) -> None:
        self._diag.close()


def connection(item: Any, info: dict[str, int]) -> Connection:
    return Connection(
        inode=item["idiag_inode"],
        peer=str(item["idiag_dst"]).removeprefix("::ffff:"),
        sent=info["tcpi_bytes_sent"],
        received=info["tcpi_bytes_received"],
        busy_seconds=info["tcpi_busy_time"] / 1e6,
        silent=max(info["tcpi_probes"], info["tcpi_backoff"]) >= 2,  # a single one may be due to congestion
    )


def own_sockets() -> dict[int, int]:
    """file descriptor -> inode"""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            target = os.readlink(entry)
            if target.startswith("socket:["):
                found[int(entry.name)] = int(target[8:-1])
    return found


def own_inodes() -> set[int]:
    return set(own_sockets().values())


def links(connections: Connections) -> dict[str, list[float]]:
    """address of the peer -> bytes sent to it and the seconds these were in flight, since the connection was made."""
    found: dict[str, list[float]] = {}
    for item in connections.established():
        sums = found.setdefault(item.peer, [0.0, 0.0])
        sums[0] += item.sent
        sums[1] += item.busy_seconds
    return found
