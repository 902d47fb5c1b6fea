"""Nobody beyond this machine can reach a local run, and whoever can reach its store cannot make it run code.

The elastic rendezvous of torch kept pickles in a store that listened on every interface: a script that connected from
another address overwrote one, and ran a command in our parent process.
"""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from gradsync.strategies import STRATEGIES

SHORT = ["--model", "logistic", "--batch-size", "4", "--train-samples", "64", "--no-eval", "--threads", "1"]
VERIFIED = ["--model", "logistic", "--batch-size", "4", "--train-samples", "64", "--steps", "3"]


@contextmanager
def command(tmp_path: Path, *words: str) -> Iterator[psutil.Popen]:
    program = [sys.executable, "-m", "gradsync.cli", *words, "--out", str(tmp_path / "runs")]
    with psutil.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    """Where the command and all it has started listen now."""
    found = set()
    with suppress(psutil.NoSuchProcess):
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                connections = one.net_connections(kind="inet")
                found |= {item.laddr[:2] for item in connections if item.status == psutil.CONN_LISTEN}
    return found


def ever_listening(process: psutil.Popen, ends: int = 0) -> set[str]:
    """The addresses, until it has ended, with that exit code."""
    found: set[str] = set()
    while process.poll() is None:
        found |= {address for address, _ in listening(process)}
        time.sleep(0.05)
    assert process.wait() == ends, process.stderr.read()
    return found


def test_of_every_strategy_nothing_listens_beyond_loopback(tmp_path: Path):
    """``verify`` starts processes once for all strategies that can have the same ones."""
    names = ["--strategies", ",".join(STRATEGIES), "--workers", "2"]
    with command(tmp_path, "verify", *VERIFIED, *names) as process:
        assert ever_listening(process, ends=1) == {"127.0.0.1"}  # none does not compute the model of one process


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="no MPI: pip install gradsync[mpi]")
def test_over_mpi_nothing_listens_beyond_loopback(tmp_path: Path):
    names = ["--strategies", "bucketed,ps-sync", "--workers", "2", "--transport", "mpi"]
    names += ["--server-placement", "shared"]  # the same two processes for both
    with command(tmp_path, "verify", *VERIFIED, *names) as process:
        assert ever_listening(process) == {"127.0.0.1"}


def test_a_benchmark_of_all_transports_does_not_listen_beyond_loopback(tmp_path: Path):
    transports = "gloo,mpi" if importlib.util.find_spec("mpi4py") else "gloo"
    asked = ["--transport", transports, "--sizes", "64KB", "--operations", "all-reduce", "--seconds", "0.1"]
    with command(tmp_path, "probe", *asked) as process:
        assert ever_listening(process) == {"127.0.0.1"}


TOUCH = """import os, pickle, sys
class Exploit:
    def __reduce__(self):
        return os.system, (f"touch {sys.argv[1]}",)
sys.stdout.buffer.write(pickle.dumps(Exploit()))
"""


def test_what_somebody_puts_into_the_store_is_never_unpickled(tmp_path: Path):
    """Every key that torch, gloo and the rendezvous use is overwritten, from the first moment on."""
    from torch.distributed import TCPStore

    proof = tmp_path / "proof"
    payload = subprocess.run([sys.executable, "-c", TOUCH, str(proof)], capture_output=True, check=True).stdout
    assert not proof.exists()
    with suppress(Exception):
        pickle.loads(payload)
    assert proof.exists(), "the payload works where it is unpickled"
    proof.unlink()

    with command(tmp_path, "train", *SHORT, "--workers", "2", "--strategy", "all-reduce", "--steps", "40") as process:
        while process.poll() is None and not (ports := [port for _, port in listening(process)]):
            time.sleep(0.01)
        store = TCPStore("127.0.0.1", ports[0], is_master=False)
        written = 0
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            with suppress(RuntimeError):  # the store has gone with the command
                for key in keys(store):
                    store.set(key, payload)
                    written += 1
        process.communicate(timeout=60)
    assert written > 10
    assert not proof.exists()
    assert process.returncode in (0, 1), "disturbed perhaps, but ended in order"


def keys(store: object) -> list[str]:
    known = ["torch.rendezvous.none", "torch.rendezvous.gradsync", "/worker/attempt_0/default_pg/0//cpu//0/0"]
    listed = getattr(store, "list_keys", None)  # since torch 2.13
    return [*known, *(listed() if listed else ())]
