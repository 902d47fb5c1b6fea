"""A peer that gives no sign of life ends the run, instead of leaving the others waiting.

The kernel watches: it sends keep-alive probes over idle connections, and gives up on one that has not answered within
the timeout. The kernel of a peer that is merely computing for a long time does answer, so it may take its time.

A thread notes periodically which peers do not answer: once a connection has ended, the kernel no longer says why.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from contextlib import suppress
from itertools import count

from gradsync.meter.connections import Connections, own_sockets

ADDRESS = re.compile(r"\[([0-9a-f.:]+)\]:\d+")  # as gloo names its peers
LOOKS = 8  # while the kernel waits for an answer
LATELY = 3  # a peer counts as silent if it was seen so at most this many looks ago
_sightings: dict[str, int] = {}  # address -> the look at which it was last seen not to answer
_looks = count()
_watching = threading.Lock()


def tie(seconds: float) -> None:
    """Let every TCP connection this process has now end after this time without an answer (Linux)."""
    if sys.platform != "linux":
        return
    every = max(1, int(seconds / LOOKS))
    options = {
        socket.TCP_KEEPIDLE: every,
        socket.TCP_KEEPINTVL: every,
        socket.TCP_KEEPCNT: 127,  # TCP_USER_TIMEOUT decides
        socket.TCP_USER_TIMEOUT: int(seconds * 1000),
    }
    for descriptor in own_sockets():
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as end:
            if end.family in (socket.AF_INET, socket.AF_INET6) and end.type == socket.SOCK_STREAM:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in options.items():
                    end.setsockopt(socket.IPPROTO_TCP, option, value)
    if _watching.acquire(blocking=False):  # one is enough for all the runs of this process
        threading.Thread(target=watch, args=[every], name="lifeline", daemon=True).start()


def watch(every: float) -> None:
    with suppress(Exception):  # without it, only the error message is less specific
        connections = Connections()
        while True:
            watch_connections(connections)
            time.sleep(every)


def watch_connections(connections: Connections) -> int:
    """Note the peers that do not answer; return the number of this look."""
    number = next(_looks)
    _sightings.update((item.peer, number) for item in connections.established() if item.silent)
    return number


def silent_peers(message: str) -> list[str]:
    """Addresses that have not answered lately: that of the connection this error is about, and others."""
    found = set(ADDRESS.findall(message)) if "timed out" in message.lower() else set()
    with suppress(Exception):
        connections = Connections()
        now = watch_connections(connections)
        connections.close()
        found |= {peer for peer, seen in _sightings.items() if seen >= now - LATELY}
    return sorted(found)
