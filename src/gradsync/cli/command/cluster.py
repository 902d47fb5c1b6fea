"""The commands about emulated clusters."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from gradsync.cli.commands import Cut, Down, Exec, Heal, ProbeCluster, Status, Up
from gradsync.cli.output import print_json
from gradsync.cluster import lifecycle, network, privilege, spec
from gradsync.cluster.enter import enter
from gradsync.cluster.everywhere import run_everywhere
from gradsync.draw.console import make_console
from gradsync.errors import InputError, unknown


def cluster(action: Any) -> int:
    privilege.ensure()
    commands: dict[type, Callable[[Any], int]] = {
        Up: up,
        Status: status,
        ProbeCluster: probe,
        Exec: execute,
        Down: down,
        Cut: cut,
        Heal: heal,
    }
    try:
        return commands[type(action)](action)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{error}. HINT: if parts of the cluster are missing, take it down.") from None
    except Exception as error:
        if type(error).__name__ != "NetlinkError":
            raise
        raise InputError(f"the kernel refused: {error}. HINT: it needs bridges, veth and tbf (sch_tbf).") from None


def up(command: Up) -> int:
    if command.name.startswith(lifecycle.FOR_ONE_RUN):
        raise InputError(f"{command.name}: names that begin with {lifecycle.FOR_ONE_RUN} are reserved.")
    made = lifecycle.up(command.name, command.shape, command.like)
    print(f"{made.name} is up: {made}.")
    for node in made.node_names:
        print(f"  {node}  {made.address(node)}")
    print(f"Run on it with --cluster {made.name}; end it with: gradsync cluster down {made.name}")
    return 0


def status(command: Status) -> int:
    from gradsync.draw.terminal import draw
    from gradsync.exhibit.cluster import status_table

    found = [spec.find_cluster(command.name)] if command.name else spec.everyone()
    damaged = {} if command.name else spec.damaged()
    if command.json:
        of_damaged = [{"name": name, "damaged": reason} for name, reason in damaged.items()]
        print_json([*map(asdict, found), *of_damaged])
        return 0
    if not found and not damaged:
        print("There is no emulated cluster. Make one with: gradsync cluster up lab --nodes 4 --bandwidth 1gbit")
    for item in found:
        draw(status_table(item, lifecycle.node_states(item)), make_console(json=False))
    for reason in damaged.values():
        make_console(json=False).print(reason, markup=False, highlight=False, soft_wrap=True)
    return 0


def probe(command: ProbeCluster) -> int:
    from gradsync.cluster import gauge
    from gradsync.draw.terminal import draw
    from gradsync.exhibit.cluster import gauge_section

    found = spec.find_cluster(command.name)
    network.refuse_cut_nodes(found)
    console = make_console(command.json)
    with console.status("each node's share of the cores") as shown:
        shares = gauge.measure_shares(found)
        pairs = gauge.measure_pairs(found, lambda text: shown.update(text))
    if command.json:
        measured = {"shares": shares, "pairs": [asdict(pair) for pair in pairs]}
        print_json({"asked": asdict(found.shape), **measured})
    else:
        draw(gauge_section(found, pairs, shares), console)
    return 0


def execute(command: Exec) -> int:
    if not command.words:
        raise InputError(f"no command to run: gradsync cluster exec {command.name} {command.node} -- COMMAND ...")
    found = spec.find_cluster(command.name)
    if command.node == "all":
        return run_everywhere(found, command.words)
    enter(found, command.node)
    sys.stdout.flush()
    try:
        os.execvp(command.words[0], command.words)
    except OSError as error:
        raise InputError(f"cannot run {command.words[0]}: {error.strerror}.") from None


def down(command: Down) -> int:
    if command.all:
        taken = lifecycle.down_all()
        print(f"taken down: {', '.join(taken)}" if taken else "there was nothing to take down")
        return 0
    if command.name is None:
        raise InputError(f"name a cluster to take down ({', '.join(spec.names()) or 'none is up'}), or give --all.")
    if command.name not in spec.names():
        near = unknown("cluster", command.name, spec.names())
        print(f"{command.name} is not up: nothing to do. ({near})")
        return 0
    lifecycle.down_named(command.name)
    print(f"{command.name} is down.")
    return 0


def cut(command: Cut) -> int:
    return attach(command.name, command.node, attached=False)


def heal(command: Heal) -> int:
    return attach(command.name, command.node, attached=True)


def attach(name: str, node: str, attached: bool) -> int:
    found = spec.find_cluster(name)
    found.number(node)
    already = network.is_attached(found, node) == attached
    if not already:
        network.set_attached(found, node, attached)
    if attached:  # a run that was killed may have left its link slower
        network.shape(found, node, found.shape.bits_per_second, found.shape.latency_seconds)
    again = " already" if already else " again" if attached else ""
    print(f"{node} of {name} is {'connected' if attached else 'cut off'}{again}.")
    return 0
