"""The rendezvous store of a run, reachable from where its ranks are and from nowhere else.

torch's own store listens on every interface of the host, whatever address it is given. Nothing in the store is ever
unpickled: it holds the addresses of ranks, which gloo and NCCL read as such (docs/using/clusters.md says what an
attacker who can reach it could still do).
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

LOOPBACK = "127.0.0.1"
ANSWER_SECONDS = 20  # to reach itself: with no file descriptors left, it would otherwise wait for five minutes


def bound_store(address: str, port: int = 0, *, shared: bool = False) -> Any:
    """torch's TCPStore behind a listening socket of our own, bound to one address. It ends with this process.

    ``shared``: other code in this process that asks for a store at the same port gets this one.
    """
    from torch.distributed import TCPStore

    listening = socket.create_server((address, port), family=family(address), backlog=socket.SOMAXCONN)
    port = listening.getsockname()[1]
    return TCPStore(
        address,
        port,
        is_master=True,
        timeout=timedelta(seconds=ANSWER_SECONDS),
        wait_for_workers=False,
        multi_tenant=shared,
        master_listen_fd=listening.detach(),
    )


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
