"""One torchrun on every host, each with the ranks of its host, started over ssh."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gradsync.config import Resolved
from gradsync.errors import InputError
from gradsync.launch.outcome import Outcome
from gradsync.launch.processes import (
    POLL_SECONDS,
    SHUTDOWN_SECONDS,
    WORKER,
    last_words,
    rank_environment,
    rank_words,
    start,
    stop_all,
)
from gradsync.launch.reach import HostUnreachable, Ssh
from gradsync.parent import signals_held

LAST_WORDS_SECONDS = 5.0  # for the other ranks to notice that one is lost, and record it

# How torchrun reports a rank that failed by itself.
FAILURE = re.compile(r"rank\s+: (\d+) .*?exitcode\s+: (-?\d+)", re.DOTALL)


def launch(config: Resolved, folders: Sequence[Path], program: str = WORKER) -> Outcome:
    """Start the agents and wait. If one fails, the others are ended."""
    folder, hosts = folders[0], Ssh(config)
    (folder / "logs").mkdir(exist_ok=True)
    try:
        hosts.send(folders)
    except HostUnreachable as error:
        return Outcome(failure=error)
    try:
        exit_codes = run_agents(commands(config, hosts, folders, program), folder)
    finally:
        hosts.fetch(folders)
    if not any(exit_codes):
        return Outcome()
    return outcome(hosts.names, exit_codes, [agent_log(folder, host) for host in range(len(exit_codes))])


class AgentFailed(Exception):
    """The message carries the stderr of torchrun."""


def commands(config: Resolved, hosts: Ssh, folders: Sequence[Path], program: str) -> list[list[str]]:
    """The local command for every host that has a rank."""
    environment = {name: os.environ.get(name, value) for name, value in agent_environment(config).items()}
    return [
        hosts.command(host, words, environment)
        for host, words in enumerate(agent_words(config, hosts, folders, program))
    ]


def agent_environment(config: Resolved) -> dict[str, str]:
    return rank_environment(config) | {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(SHUTDOWN_SECONDS)}


def agent_words(config: Resolved, hosts: Ssh, folders: Sequence[Path], program: str) -> list[list[str]]:
    """The torchrun command of every host."""
    python = config.remote_python or sys.executable
    meeting = f"--master-addr={hosts.addresses[0]}", f"--master-port={hosts.free_port()}"
    rank = rank_words(python, program, [folder.absolute() for folder in folders])[2:]
    return [
        [python, "-u", "-m", "gradsync.launch.agent", *options, *meeting, *rank]
        for options in agent_options(config.places)
    ]


def agent_options(places: Sequence[int]) -> list[list[str]]:
    """torchrun's options that differ from node to node; ``places``: the node of every rank."""
    if list(places) != sorted(places):
        raise InputError(
            "torchrun numbers the ranks node by node, so servers, which come last, must be on the last node. "
            "HINT: use one host more than the workers need, for instance with --workers-per-node."
        )
    used = sorted(set(places))
    return [
        [f"--nnodes={len(used)}", f"--node-rank={number}", f"--nproc-per-node={places.count(node)}"]
        for number, node in enumerate(used)
    ]


def text(config: Resolved, folder: Path, program: str = WORKER) -> str:
    """The command for every host, to be entered there by hand, all at about the same time."""
    hosts = Ssh(config)
    settings = " ".join(f"{name}={value}" for name, value in agent_environment(config).items())
    lines = []
    for name, words in zip(hosts.names, agent_words(config, hosts, [folder], program), strict=False):
        lines += [f"# on {name}:", f"{settings} {shlex.join(words)}"]
    after = [
        "# The folder must be the same on every host. When all have ended:",
        f"gradsync finish {shlex.quote(str(folder.absolute()))}",
    ]
    return "\n".join([*lines, *after])


def agent_log(folder: Path, node: int) -> Path:
    return folder / "logs" / f"torchrun-{node}.log"


def run_agents(commands: Sequence[Sequence[str]], folder: Path) -> list[int]:
    """Run the agents; return their exit codes, 0 also for those that were ended because another one failed."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    exit_codes = [0] * len(commands)
    try:
        for node, words in enumerate(commands):
            with open(agent_log(folder, node), "wb") as output:
                running[node] = start(words, os.environ, output)
        deadline = None
        while running and (deadline is None or time.monotonic() < deadline):
            for node in [node for node, process in running.items() if process.poll() is not None]:
                exit_codes[node] = running.pop(node).returncode
            if any(exit_codes) and deadline is None:
                deadline = time.monotonic() + LAST_WORDS_SECONDS
            time.sleep(POLL_SECONDS)
    finally:
        with signals_held():
            stop_all(running.values())
    return exit_codes


def outcome(names: Sequence[str], exit_codes: Sequence[int], logs: Sequence[Path]) -> Outcome:
    """Which ranks failed and how, from what every torchrun has reported."""
    reports = [path.read_text(errors="replace") if path.exists() else "" for path in logs]
    failed = {int(rank): int(code) for report in reports for rank, code in FAILURE.findall(report)}
    if failed:
        return Outcome(exit_codes=failed)
    node = next(number for number, code in enumerate(exit_codes) if code)
    return Outcome(failure=AgentFailed(f"torchrun on {names[node]} failed: {last_words(reports[node])}"))
