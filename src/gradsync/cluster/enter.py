"""Run a command on a node: ``python -m gradsync.cluster.enter CLUSTER NODE COMMAND...``

The process becomes the command, inside the node's network, with the node's host name and share of the cores.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from gradsync.cluster import groups, namespaces, privilege, spec
from gradsync.cluster.spec import INTERFACE, Cluster
from gradsync.errors import InputError
from gradsync.parent import end_with_parent


def command(cluster: Cluster, *words: str) -> list[str]:
    """The command to start, from anywhere on this host. ``words``: a node, and the command to run on it."""
    return [sys.executable, "-m", __name__, cluster.name, *words]


def enter(cluster: Cluster, node: str) -> None:
    cluster.number(node)
    groups.join([Path(folder) for folder in cluster.groups], node)
    namespaces.enter(namespaces.FOLDER / cluster.namespace(node), namespaces.NETWORK)
    namespaces.call("unshare", namespaces.HOST_NAME | namespaces.MOUNTS)
    socket.sethostname(node)
    namespaces.cover(Path("/etc/hosts"), spec.hosts_file(cluster.name))
    namespaces.cover(Path("/etc/resolv.conf"), Path(os.devnull))  # a DNS query would fail only after ten seconds
    os.environ.update(environment())


def environment() -> dict[str, str]:
    """The variables by which each library chooses the interface for messages."""
    return {
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "NCCL_SOCKET_IFNAME": INTERFACE,
        "UCX_NET_DEVICES": INTERFACE,
        "UCX_TLS": "tcp,self",  # the nodes share a kernel: mpich would pass messages through memory, past their links
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": INTERFACE,
        "GRADSYNC_INTERFACE": INTERFACE,
    }


def main() -> None:
    end_with_parent(signal.SIGTERM)
    name, node, *words = sys.argv[1:]
    try:
        privilege.ensure()
        enter(spec.find_cluster(name), node)
    except (InputError, OSError) as error:
        sys.exit(f"gradsync: {error}")
    try:
        os.execvp(words[0], words)
    except FileNotFoundError:
        print(f"gradsync: there is no command {words[0]} here.", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
