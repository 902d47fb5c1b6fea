"""One torchrun on every node, each with the ranks of its node: on emulated nodes, or on hosts over ssh."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch.outcome import Outcome
from gradsync.launch.processes import WORKER, end_sessions, last_words, rank_environment, stop_all
from gradsync.launch.reach import HostUnreachable, Reach, Ssh, reached

POLL_SECONDS = 0.1
LAST_WORDS_SECONDS = 5.0  # for the others to see that one is lost, and write it down

# How torchrun reports a rank that failed by itself.
FAILURE = re.compile(r"rank\s+: (\d+) .*?exitcode\s+: (-?\d+)", re.DOTALL)


def launch(config: RunConfig, folders: Sequence[Path], module: str = WORKER) -> Outcome:
    """Start the agents and wait. If one fails, the others are ended."""
    folder = folders[0]
    (folder / "logs").mkdir(exist_ok=True)
    with reached(config) as nodes:
        try:
            nodes.send(folders)
        except HostUnreachable as error:
            return Outcome(failure=error)
        try:
            exit_codes = run_agents(commands(config, nodes, folders, module), folder)
        finally:
            nodes.fetch(folders)
        if not any(exit_codes):
            return Outcome()
        if config.is_emulated:
            end_sessions(folder, config.processes)
        return outcome(nodes.names, exit_codes, [agent_log(folder, node) for node in range(len(exit_codes))])


class AgentFailed(Exception):
    """It has told why."""


def commands(config: RunConfig, nodes: Reach, folders: Sequence[Path], module: str) -> list[list[str]]:
    """What to start here for every node that has a rank."""
    meeting = f"--master-addr={nodes.addresses[0]}", f"--master-port={nodes.free_port()}"
    environment = {name: os.environ.get(name, value) for name, value in rank_environment(config).items()}
    torchrun = [config.remote_python or sys.executable, "-u", "-m", "torch.distributed.run"]
    program = ["-m", module, *(str(folder.absolute()) for folder in folders)]
    return [
        nodes.command(node, [*torchrun, *options, *meeting, *program], environment)
        for node, options in enumerate(agent_options(config.places))
    ]


def agent_options(places: Sequence[int]) -> list[list[str]]:
    """torchrun's options that differ from node to node; ``places``: for every rank its node."""
    if list(places) != sorted(places):
        raise InputError(
            "torchrun numbers the ranks node by node, so that servers, which come last, need the last node. "
            "HINT: give them a host more than the workers take, for instance with --workers-per-node."
        )
    used = sorted(set(places))
    return [
        [f"--nnodes={len(used)}", f"--node-rank={number}", f"--nproc-per-node={places.count(node)}"]
        for number, node in enumerate(used)
    ]


def text(config: RunConfig, folder: Path, module: str = WORKER) -> str:
    """The commands for every host, to be given there by hand, all at about the same time."""
    nodes = Ssh(config)
    meeting = [f"--master-addr={nodes.addresses[0]}", f"--master-port={nodes.free_port()}"]
    program = ["-m", module, str(folder.absolute())]
    settings = " ".join(f"{name}={value}" for name, value in rank_environment(config).items())
    lines = []
    for name, options in zip(nodes.names, agent_options(config.places), strict=False):
        lines += [f"# on {name}:", f"{settings} {shlex.join(['torchrun', *options, *meeting, *program])}"]
    after = [
        "# The folder must be the same on every host. When all have ended:",
        f"gradsync finish {shlex.quote(program[2])}",
    ]
    return "\n".join([*lines, *after])


def agent_log(folder: Path, node: int) -> Path:
    return folder / "logs" / f"torchrun-{node}.log"


def run_agents(commands: Sequence[Sequence[str]], folder: Path) -> list[int]:
    """Their exit codes; 0 also for those that were ended because another one failed."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    exit_codes = [0] * len(commands)
    try:
        for node, words in enumerate(commands):
            with open(agent_log(folder, node), "wb") as output:
                running[node] = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C reaches us only, and we tell them
                )
        deadline = None
        while running and (deadline is None or time.monotonic() < deadline):
            for node in [node for node, process in running.items() if process.poll() is not None]:
                exit_codes[node] = running.pop(node).returncode
            if any(exit_codes) and deadline is None:
                deadline = time.monotonic() + LAST_WORDS_SECONDS
            time.sleep(POLL_SECONDS)
    finally:
        stop_all(running.values())
    return exit_codes


def outcome(names: Sequence[str], exit_codes: Sequence[int], logs: Sequence[Path]) -> Outcome:
    """From what every torchrun has reported, which ranks failed, and how."""
    reports = [path.read_text(errors="replace") if path.exists() else "" for path in logs]
    failed = {int(rank): int(code) for report in reports for rank, code in FAILURE.findall(report)}
    if failed:
        return Outcome(exit_codes=failed)
    node = next(number for number, code in enumerate(exit_codes) if code)
    return Outcome(failure=AgentFailed(f"torchrun on {names[node]} failed: {last_words(reports[node])}"))
