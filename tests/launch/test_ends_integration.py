"""How runs end that are killed, stopped or run out of something: in time, with a sentence, and nothing is left."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from root import needs_root
from started import Started, alive, wait_until

needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="no MPI: pip install gradsync[mpi]")

TRAIN = ["--model", "logistic", "--workers", "2", "--batch-size", "8", "--no-eval", "--threads", "1"]
ENDLESS = [*TRAIN, "--steps", "1000000"]
ON_NODES = ["--nodes", "2"]
OVER_MPI = ["--transport", "mpi", "--strategy", "all-reduce"]

Start = Callable[..., Started]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    begun: list[Started] = []

    def start(*args: str) -> Started:
        begun.append(Started(tmp_path / "runs", *args))
        return begun[-1]

    yield start
    for run in begun:
        run.end()


def train(folder: Path, *words: str, **settings: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gradsync.cli", "train", *words, "--out", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, **settings)


def with_tag(tag: str) -> list[int]:
    """Every process that has inherited this setting, whoever its parent is now."""
    found = []
    for process in psutil.process_iter(["environ"]):
        if (process.info["environ"] or {}).get("GRADSYNC_TEST_TAG") == tag and alive(process.pid):
            found.append(process.pid)
    return found


@pytest.mark.alone
@pytest.mark.parametrize(
    "way", [[], ["--strategy", "ps-async"], pytest.param(OVER_MPI, marks=needs_mpi)], ids=["local", "servers", "mpi"]
)
def test_a_command_killed_while_its_ranks_start_leaves_none(tmp_path: Path, way: list[str]):
    """In the second in which they import torch: none had been tied to the command yet, and 11 of 11 stayed."""
    for number in range(2):
        tag = f"{os.getpid()}-{number}"
        process = subprocess.Popen(
            [sys.executable, "-m", "gradsync.cli", "train", *ENDLESS, *way, "--out", str(tmp_path)],
            env={**os.environ, "GRADSYNC_TEST_TAG": tag},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda tag=tag: len(with_tag(tag)) > 1, 60)  # the first rank is there
        time.sleep(0.25 * number)  # into its start, not until something has happened
        process.kill()
        process.wait()
        assert wait_until(lambda tag=tag: not with_tag(tag), 5) < 5


@pytest.mark.alone
@pytest.mark.parametrize("way", [[], pytest.param(OVER_MPI, marks=needs_mpi)], ids=["local", "mpi"])
def test_a_rank_stopped_for_ever_ends_the_run_after_the_timeout(start: Start, way: list[str]):
    """Its kernel answers for it: without a look at the process the others waited for gloo's half hour."""
    run = start("--timeout", "2", *way)
    os.kill(run.pids[1], signal.SIGSTOP)
    _, errors = run.process.communicate(timeout=30)
    assert run.process.returncode == 1
    assert "failed on rank 1: ProcessDied: the process was stopped (SIGSTOP) and did not resume within" in errors
    assert not any(alive(pid) for pid in run.pids)


@pytest.mark.parametrize(
    "way",
    [
        [],
        ["--strategy", "ps-async"],
        pytest.param(OVER_MPI, marks=needs_mpi),
        pytest.param(ON_NODES, marks=needs_root),
        pytest.param([*ON_NODES, *OVER_MPI], marks=[needs_root, needs_mpi]),
    ],
    ids=["local", "servers", "mpi", "nodes", "mpi on nodes"],
)
def test_the_end_of_the_terminal_is_a_stop_like_any_other(tmp_path: Path, way: list[str]):
    run = Started(tmp_path, *way, servers=int("ps-async" in way))
    try:
        run.process.send_signal(signal.SIGHUP)
        run.process.communicate(timeout=30)
        assert run.process.returncode == 128 + signal.SIGHUP
        assert run.run().stopped_by == "SIGHUP"
        assert not any(alive(pid) for pid in run.pids)
    finally:
        run.end()


@pytest.mark.parametrize(
    ("way", "error"),
    [([], "SystemExit(3)"), pytest.param(OVER_MPI, "KeyboardInterrupt()", marks=needs_mpi)],
    ids=["local", "mpi"],
)
def test_a_rank_that_just_leaves_is_named_and_ends_the_others(tmp_path: Path, way: list[str], error: str):
    """Under MPI the others waited for it for ever, in MPI_Finalize."""
    own = tmp_path / "own.py"
    own.write_text(
        "import torch, os\n"
        "class Leaves(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.linear, self.calls = torch.nn.Linear(3 * 32 * 32, 10), 0\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        if self.calls == 3 and '1' in (os.environ.get('RANK'), os.environ.get('PMI_RANK')):\n"
        f"            raise {error}\n"
        "        return self.linear(x.flatten(1))\n"
        "build = Leaves\n"
    )
    done = train(tmp_path / "runs", *TRAIN, "--model", f"{own}:build", "--steps", "100000", *way)
    assert done.returncode == 1, done.stderr
    assert f"failed on rank 1: {error.partition('(')[0]}" in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


@needs_root
@pytest.mark.parametrize("way", [[], pytest.param(OVER_MPI, marks=needs_mpi)], ids=["local", "mpi"])
def test_a_full_disk_is_a_sentence_and_what_was_written_can_be_read(small_disk: Path, way: list[str]):
    done = train(small_disk, *ENDLESS, *way)
    assert done.returncode == 1
    assert "the disk is full. HINT: make room, or choose another --out" in done.stderr
    assert "Traceback" not in done.stderr
    shown = subprocess.run(
        [sys.executable, "-m", "gradsync.cli", "show", str(small_disk)], capture_output=True, text=True
    )
    assert shown.returncode == 0 and "unfinished" in shown.stdout, shown.stderr


def test_a_run_folder_that_is_deleted_meanwhile_is_a_sentence(start: Start):
    run = start()
    shutil.rmtree(run.folder)
    os.kill(run.pids[0], signal.SIGTERM)
    _, errors = run.process.communicate(timeout=30)
    assert run.process.returncode == 1
    assert "the run folder is gone" in errors and str(run.folder) in errors
    assert "Traceback" not in errors


def test_too_few_file_descriptors_are_a_sentence(tmp_path: Path):
    import resource

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (18, 18))

    done = train(tmp_path, *TRAIN, "--workers", "8", "--steps", "3", preexec_fn=few)
    assert done.returncode == 1
    assert "no file descriptors are left. HINT: raise `ulimit -n`" in done.stderr


@needs_root
def test_ports_that_are_used_up_are_a_sentence(tmp_path: Path):
    """In a network of its own with eight ports in all: torch tried again and again for five minutes."""
    command = [sys.executable, "-m", "gradsync.cli", "train", *TRAIN, "--workers", "4", "--out", str(tmp_path)]
    few = 'ip link set lo up && echo "40000 40007" > /proc/sys/net/ipv4/ip_local_port_range && exec "$@"'
    words = ["unshare", "--net", "sh", "-c", few, "sh", *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "no port is free. HINT: see what holds them with `ss -tan`" in done.stderr
    assert "Traceback" not in done.stderr
