"""Run a command on a node: ``python -m gradsync.cluster.enter CLUSTER NODE COMMAND...``

The process becomes the command, inside the node's network, with the node's host name and share of the cores.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import asdict
from pathlib import Path

from gradsync.cluster import groups, namespaces, privilege, spec
from gradsync.cluster.spec import Cluster
from gradsync.errors import InputError
from gradsync.parent import end_with_parent
from gradsync.record import strict_json


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
    os.environ.update(environment(cluster))


def environment(cluster: Cluster) -> dict[str, str]:
    """The variables by which each library chooses the interface for messages; and the shape, for the record."""
    interface = cluster.interface
    return {
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": interface,
        "UCX_NET_DEVICES": interface,
        "UCX_TLS": "tcp,self",  # the nodes share a kernel: mpich would pass messages through memory, past their links
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": interface,
        "GRADSYNC_INTERFACE": interface,
        "GRADSYNC_CLUSTER": strict_json(asdict(cluster.shape)),
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
