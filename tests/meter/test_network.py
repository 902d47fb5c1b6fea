"""Counters of the kernel against bytes that were really sent."""

from __future__ import annotations

import socket
import sys

import pytest

from gradsync.meter import network
from gradsync.meter.network import Interface, Sockets, choose_counter

linux = pytest.mark.skipif(sys.platform != "linux", reason="sock_diag and /proc are Linux's")
COUNT = 300_000


def send_to_myself() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    left = COUNT
    while left:
        one.sendall(b"x" * min(left, 10_000))
        left -= len(other.recv(min(left, 10_000), socket.MSG_WAITALL))
    return one, other


@linux
def test_the_sockets_of_this_process_count_both_ends_and_remember_closed_ones():
    counter = Sockets()
    before = counter.read()
    ends = send_to_myself()
    after = counter.read()
    assert after.sent - before.sent == COUNT
    assert after.received - before.received == COUNT
    for end in ends:
        end.close()
    assert counter.read() == after


@linux
def test_an_interface_counts_headers_too():
    counter = Interface("lo")
    before = counter.read()
    for end in send_to_myself():
        end.close()
    assert counter.read().sent - before.sent > COUNT
    assert counter.source == "interface lo"


@linux
def test_the_interface_is_taken_only_where_the_rank_has_it_for_itself():
    assert choose_counter("lo", 1).source == "sockets"
    name = next((name for _, name in socket.if_nameindex() if name != "lo"), None)
    if name is None:
        pytest.skip("this machine has no interface but loopback")
    assert choose_counter(name, 1).source == f"interface {name}"
    assert choose_counter(name, 2).source == "sockets"


@linux
def test_an_interface_that_is_not_there_leaves_the_sockets():
    assert choose_counter("no-such-interface", 1).source == "sockets"


def test_a_counter_that_cannot_be_had_does_not_stop_anything(monkeypatch):
    monkeypatch.setattr(network, "Sockets", lambda: 1 / 0)
    assert choose_counter("lo", 1) is None
