"""Is the emulated cluster what was asked for? Bandwidth and round trip of every two nodes, each node's CPU share.

The two ends of a connection are threads of this process with a socket in each node: this measures the network, not
how much of a core a node has.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import permutations

from gradsync.cluster import namespaces
from gradsync.cluster.enter import command
from gradsync.cluster.spec import Cluster
from gradsync.errors import InputError

RATE_SECONDS = 0.5
SETTLE_SECONDS = 0.1  # by then the token bucket is empty and the rate of TCP has settled
BLOCK = 1 << 20
PINGS = 50
SHARE_SECONDS = 2.0
PATIENCE = 10.0

# Prints the share of a core this process got while it was spinning, from a start time all nodes have agreed on.
SPIN = """
import sys, time
begin, seconds = float(sys.argv[1]), float(sys.argv[2])
time.sleep(max(0.0, begin - time.monotonic()))
start, used = time.monotonic(), time.process_time()
while time.monotonic() < start + seconds: pass
print((time.process_time() - used) / (time.monotonic() - start))
"""


@dataclass(frozen=True)
class Pair:
    """What was measured from one node to another."""

    source: str
    target: str
    bits_per_second: float
    round_trip: float


def measure_pairs(cluster: Cluster, tell: Callable[[str], None] = lambda _: None) -> list[Pair]:
    """Measure every ordered pair of nodes, one after another."""
    found = []
    for source, target in permutations(cluster.node_names, 2):
        tell(f"{source} → {target}")
        with connected(cluster, source, target) as (sender, receiver):
            round_trip = ping(sender, receiver)
            rate = transfer([(sender, receiver)])
        found.append(Pair(source, target, rate, round_trip))
    return found


def rate_into(cluster: Cluster, sources: Sequence[str], target: str) -> float:
    """Bits a second that one node receives from several together."""
    with ExitStack() as stack:
        return transfer([stack.enter_context(connected(cluster, source, target)) for source in sources])


@contextmanager
def connected(cluster: Cluster, source: str, target: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection from one node to another."""
    with ExitStack() as stack:
        with namespaces.inside(cluster.namespace(target)):
            listener = stack.enter_context(socket.create_server((cluster.address(target), 0)))
        listener.settimeout(PATIENCE)
        with namespaces.inside(cluster.namespace(source)):
            sender = stack.enter_context(socket.create_connection(listener.getsockname(), PATIENCE))
        receiver = stack.enter_context(listener.accept()[0])
        for end in (sender, receiver):
            end.settimeout(PATIENCE)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sender, receiver


def ping(sender: socket.socket, receiver: socket.socket) -> float:
    """The round-trip time of one byte in seconds, the median of many."""

    def answer() -> None:
        for _ in range(PINGS):
            receiver.sendall(receiver.recv(1))

    answering = threading.Thread(target=answer)
    answering.start()
    times = []
    for _ in range(PINGS):
        begin = time.perf_counter()
        sender.sendall(b"?")
        sender.recv(1)
        times.append(time.perf_counter() - begin)
    answering.join()
    return statistics.median(times)


def transfer(ends: Sequence[tuple[socket.socket, socket.socket]]) -> float:
    """Bits a second that arrive over all these connections together while all are sending."""
    begin = time.monotonic() + SETTLE_SECONDS
    end = begin + RATE_SECONDS
    counts = [[0, 0.0, 0.0] for _ in ends]  # bytes, and the times of the first and last of them

    def send(sender: socket.socket) -> None:
        block = bytes(BLOCK)
        while time.monotonic() < end:
            sender.sendall(block)
        sender.shutdown(socket.SHUT_WR)

    def receive(receiver: socket.socket, count: list[float]) -> None:
        block = bytearray(BLOCK)
        while size := receiver.recv_into(block):
            now = time.monotonic()
            if now < begin:
                count[1] = now
            elif now <= end:
                count[0] += size
                count[2] = now

    threads = [threading.Thread(target=send, args=[sender]) for sender, _ in ends]
    receivers = [receiver for _, receiver in ends]
    threads += [threading.Thread(target=receive, args=both) for both in zip(receivers, counts, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(8 * size / (last - first) for size, first, last in counts if last > first)


def measure_shares(cluster: Cluster) -> dict[str, float]:
    """The share of a core every node gets when all want one at the same time."""
    begin = time.monotonic() + 0.5 + 0.3 * cluster.nodes  # when all have started
    words = [sys.executable, "-c", SPIN, str(begin), str(SHARE_SECONDS)]
    running = {
        node: subprocess.Popen(command(cluster, node, *words), stdout=subprocess.PIPE, text=True)
        for node in cluster.node_names
    }
    try:
        answers = {node: process.communicate(timeout=60)[0] for node, process in running.items()}
        silent = [node for node, answer in answers.items() if not answer]
        if silent:
            raise InputError(f"nothing can be run on {', '.join(silent)}: take the cluster down, and up again.")
        return {node: float(answer) for node, answer in answers.items()}
    finally:
        for process in running.values():
            process.kill()
            process.wait()
