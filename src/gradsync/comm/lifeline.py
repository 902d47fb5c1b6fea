"""A peer that gives no sign of life ends the run instead of being waited for.

The kernel watches: it asks idle connections whether the other end is there, and gives up on one that has not answered
for so many seconds. A peer that only computes for long answers, so that it may take its time.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from contextlib import suppress

from gradsync.meter.connections import Connections, own_sockets

ADDRESS = re.compile(r"\[([0-9a-f.:]+)\]:\d+")  # as gloo names its peers


def tie(seconds: float) -> None:
    """Every TCP connection this process has now ends after this time without an answer (Linux)."""
    if sys.platform != "linux":
        return
    ask_every = max(1, int(seconds / 8))
    options = {
        socket.TCP_KEEPIDLE: max(1, int(seconds / 4)),
        socket.TCP_KEEPINTVL: ask_every,
        socket.TCP_KEEPCNT: 127,  # TCP_USER_TIMEOUT decides
        socket.TCP_USER_TIMEOUT: int(seconds * 1000),
    }
    for descriptor in own_sockets():
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as end:
            if end.family in (socket.AF_INET, socket.AF_INET6) and end.type == socket.SOCK_STREAM:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in options.items():
                    end.setsockopt(socket.IPPROTO_TCP, option, value)


def silent_peers(message: str) -> list[str]:
    """Addresses that do not answer: of the connection whose end this message tells, and of those still open."""
    found = set(ADDRESS.findall(message)) if "timed out" in message.lower() else set()
    with suppress(Exception):  # the sentence is poorer without, that is all
        connections = Connections()
        found |= {item.peer for item in connections.look() if item.silent}
        connections.close()
    return sorted(found)
