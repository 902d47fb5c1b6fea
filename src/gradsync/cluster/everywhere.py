"""The same command on every node of a cluster at once, with the output of each node in lines that carry its name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from gradsync.cluster.enter import command
from gradsync.cluster.spec import Cluster
from gradsync.errors import signal_name
from gradsync.parent import signals_held

POLL_SECONDS = 0.05
GRACE_SECONDS = 10.0  # from passing on a signal until what is left is killed

Running = dict[str, "subprocess.Popen[bytes]"]


def filled(words: Sequence[str], rank: int, node: str) -> list[str]:
    """The command of one node. Other braces in it stay."""
    return [word.replace("{rank}", str(rank)).replace("{node}", node) for word in words]


def run_everywhere(cluster: Cluster, words: Sequence[str]) -> int:
    """Wait for all; the exit code is that of the first that fails. A signal ends the command on every node."""
    environment = {"PYTHONUNBUFFERED": "1", **os.environ}  # so that lines are shown when they are printed
    running: Running = {}
    readers: list[threading.Thread] = []
    lock = threading.Lock()
    try:
        for rank, node in enumerate(cluster.node_names):
            process = subprocess.Popen(
                command(cluster, node, *filled(words, rank, node)),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C reaches only us, and we pass it on
            )
            running[node] = process
            for source, target in ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer)):
                assert source is not None
                readers.append(threading.Thread(target=copy_lines, args=[node, source, target, lock], daemon=True))
                readers[-1].start()
        code = first_failure(running)
    except KeyboardInterrupt as stop:
        with signals_held():
            end_all(running, signal.Signals[signal_name(stop)])
        raise
    finally:
        for reader in readers:
            reader.join(GRACE_SECONDS)
    return code


def copy_lines(node: str, source: IO[bytes], target: IO[bytes], lock: threading.Lock) -> None:
    """Whole lines, each with the node's name: those of two nodes never share one."""
    for line in source:
        with lock, suppress(BrokenPipeError):
            target.write(f"{node}: ".encode() + line.rstrip(b"\n") + b"\n")
            target.flush()


def first_failure(running: Running) -> int:
    """Wait until all have ended. The others go on when one has failed, as they may not need it."""
    code = 0
    waiting = dict(running)
    while waiting:
        for node, process in list(waiting.items()):
            if process.poll() is None:
                continue
            del waiting[node]
            failed = process.returncode if process.returncode >= 0 else 128 - process.returncode
            code = code or failed
            if failed and waiting:
                print(f"gradsync: {node} ended with exit code {failed}; Ctrl-C ends the others.", file=sys.stderr)
        time.sleep(POLL_SECONDS)
    return code


def end_all(running: Running, number: signal.Signals) -> None:
    """Pass the signal on to every node, and kill what is left after a while."""
    until = time.monotonic() + GRACE_SECONDS
    for process in running.values():
        signal_group(process, number)
    for process in running.values():
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        signal_group(process, signal.SIGKILL)
        process.wait()


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
