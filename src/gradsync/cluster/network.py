"""The network: a bridge in a namespace of its own, and for each node a namespace with one shaped link to it.

Both ends of a link are shaped, as by a switch: what a node sends at its own end, and what all others together send
to it at the bridge's end. Nothing is created in the host's own network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradsync.cluster import namespaces
from gradsync.cluster.spec import Cluster
from gradsync.errors import InputError

BRIDGE = "switch"
MTU = 9000  # jumbo frames, as between the machines of a cluster: 99 % of what travels is payload
HANDLE = 0x10000
BURST_SECONDS, SMALLEST_BURST = 0.001, 96 * 1024  # the burst of the token bucket; below 64 KiB it would split packets
QUEUE_SECONDS = 0.1  # what waits longer is dropped, and TCP slows down


@contextmanager
def netlink(namespace: str) -> Iterator[Any]:
    """A netlink connection to one namespace."""
    from pyroute2 import IPRoute

    with namespaces.inside(namespace):  # not IPRoute(netns=...): its helper process gives up on a busy machine
        route = IPRoute()
    with route:
        yield route


def index(route: Any, interface: str) -> int:
    found = route.link_lookup(ifname=interface)
    if not found:
        raise InputError(f"there is no interface {interface} where one should be: take the cluster down.")
    return found[0]


def create_switch(cluster: Cluster) -> None:
    namespaces.create(cluster.namespace("switch"))
    with netlink(cluster.namespace("switch")) as switch:
        switch.link("add", ifname=BRIDGE, kind="bridge", br_forward_delay=0, br_stp_state=0)
        bridge = index(switch, BRIDGE)
        switch.addr("add", index=bridge, address=cluster.address("switch"), prefixlen=24)
        switch.link("set", index=bridge, mtu=MTU, state="up")
        switch.link("set", index=index(switch, "lo"), state="up")


def create_node(cluster: Cluster, node: str) -> None:
    namespaces.create(cluster.namespace(node))
    with netlink(cluster.namespace("switch")) as switch, netlink(cluster.namespace(node)) as own:
        peer = {"ifname": cluster.interface, "net_ns_fd": cluster.namespace(node)}
        switch.link("add", ifname=cluster.port(node), kind="veth", peer=peer)
        port, interface = index(switch, cluster.port(node)), index(own, cluster.interface)
        switch.link("set", index=port, mtu=MTU, master=index(switch, BRIDGE), state="up")
        own.addr("add", index=interface, address=cluster.address(node), prefixlen=24)
        own.link("set", index=interface, mtu=MTU, state="up")
        own.link("set", index=index(own, "lo"), state="up")
    shape(cluster, node, cluster.shape.bits_per_second, cluster.shape.latency_seconds)


def shape(cluster: Cluster, node: str, bits: float | None, delay: float | None = None) -> None:
    """Set what a node's link carries from now on, in each direction; the delay applies to what the node sends."""
    ends = [(cluster.namespace(node), cluster.interface), (cluster.namespace("switch"), cluster.port(node))]
    for namespace, interface in ends:
        with netlink(namespace) as route:
            here = index(route, interface)
            remove_shape(route, here)
            own_delay = delay if interface == cluster.interface else None
            if own_delay:
                route.tc("add", "netem", here, handle=HANDLE, delay=round(own_delay * 1e6))
            if bits:
                below = {"parent": HANDLE + 1, "handle": 2 * HANDLE} if own_delay else {"handle": HANDLE}
                route.tc("add", "tbf", here, **below, **bucket(bits))


def bucket(bits: float) -> dict[str, int]:
    """The token bucket for this many bits a second, as netlink expects it."""
    rate = round(bits / 8)
    burst = max(round(rate * BURST_SECONDS), SMALLEST_BURST)
    return {"rate": rate, "burst": burst, "limit": round(rate * QUEUE_SECONDS) + burst}


def remove_shape(route: Any, interface: int) -> None:
    for item in route.get_qdiscs(interface):
        if item["parent"] == 0xFFFFFFFF and item["handle"]:  # one of ours at the root; the kernel's own has no number
            route.tc("del", index=interface, handle=item["handle"], parent=item["parent"])


def set_attached(cluster: Cluster, node: str, attached: bool) -> None:
    """Pull a node's cable out of the switch, or put it back. The node itself is not notified."""
    with netlink(cluster.namespace("switch")) as switch:
        master = index(switch, BRIDGE) if attached else 0
        switch.link("set", index=index(switch, cluster.port(node)), master=master)


def is_attached(cluster: Cluster, node: str) -> bool:
    with netlink(cluster.namespace("switch")) as switch:
        port = switch.get_links(index(switch, cluster.port(node)))[0]
        return bool(port.get_attr("IFLA_MASTER"))


def refuse_cut_nodes(cluster: Cluster) -> None:
    if cut := [node for node in cluster.node_names if not is_attached(cluster, node)]:
        raise InputError(
            f"{', '.join(cut)} of {cluster.name} cannot be reached: its link is cut. "
            f"HINT: gradsync cluster heal {cluster.name} {cut[0]}."
        )


def refuse_missing_netem(namespace: str) -> None:
    """Refuse a latency where the kernel has no netem, which is tested on an unused loopback interface."""
    from pyroute2.netlink.exceptions import NetlinkError

    with netlink(namespace) as route:
        try:
            route.tc("add", "netem", index(route, "lo"), handle=HANDLE, delay=1000)
        except NetlinkError:
            raise InputError(
                "--latency needs the kernel's netem (CONFIG_NET_SCH_NETEM), which this kernel does not have. "
                "HINT: leave --latency out, or load the module sch_netem."
            ) from None
        remove_shape(route, index(route, "lo"))
