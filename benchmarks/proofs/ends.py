"""How runs end, many times over: commands killed while they start, MPI runs, and recorded scripts with `attach`.

    python benchmarks/proofs/ends.py [--smoke]    about 3 minutes; expected: no process left after 5 s,
    every MPI run completed, every script ended with exit code 0 and a complete record
    python benchmarks/proofs/ends.py --kills 50 --mpi-runs 100 --scripts 200    about 40 minutes on two cores

1. Commands are killed (SIGKILL) at a random moment in their first two seconds, or in the first two of their ranks.
2. MPI runs: 4 ranks on this machine; as root also 2 nodes with 2 each, and 8 ranks on one node.
3. Two-rank torchrun scripts with `attach(record=...)`, with every strategy and several at a time: torch's threads
   must not abort the process, nor cut the record short.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

sys.path.append(str(Path(__file__).parent.parent))

from arguments import asked
from gradsync.record import read_run
from gradsync.strategies import STRATEGIES

GONE_SECONDS = 5.0
TAG = "GRADSYNC_BENCHMARK_TAG"
TRAIN = [sys.executable, "-m", "gradsync.cli", "train", "--model", "logistic", "--no-eval", "--threads", "1"]
HAS_MPI = importlib.util.find_spec("mpi4py") is not None
WAYS = {"local": ["--workers", "2"], "with servers": ["--workers", "2", "--strategy", "ps-async"]}
if HAS_MPI:
    WAYS["mpi"] = ["--workers", "2", "--transport", "mpi"]
ON_NODES = {"on nodes": ["--nodes", "2"]}
MPI_RUNS = {"4 on this machine": ["--workers", "4"]}
MPI_ON_NODES = {
    "2 nodes × 2": ["--nodes", "2", "--workers-per-node", "2"],
    "1 node × 8": ["--nodes", "1", "--workers-per-node", "8"],
}
AGREEING = [name for name, kind in STRATEGIES.items() if not (kind.has_servers or kind.in_one_process)]
STEPS = 20
SCRIPT = f"""
import sys, torch, gradsync
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
sync = gradsync.attach(model, optimizer, strategy=sys.argv[1], record=sys.argv[2], report=False)
for _ in range({STEPS}):
    loss = torch.nn.functional.cross_entropy(sync(torch.randn(8, 64)), torch.randint(0, 10, (8,)))
    loss.backward()
    sync.step()
    sync.log(loss=loss)
"""


def tagged(tag: str) -> list[int]:
    """Every living process that has inherited the tag, whoever its parent is now."""
    found = []
    for process in psutil.process_iter(["environ", "status"]):
        inherited = (process.info["environ"] or {}).get(TAG)
        if inherited == tag and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def kill_commands(count: int, folder: Path, seed: int) -> int:
    """Kill ``count`` commands; return how many of them left a process behind."""
    chance, left = random.Random(seed), 0
    ways = {**WAYS, **(ON_NODES if os.geteuid() == 0 else {})}
    for number in range(count):
        name, way = list(ways.items())[number % len(ways)]
        tag, from_ranks = f"{os.getpid()}-{number}", number % 2
        words = [*TRAIN, "--batch-size", "8", "--steps", "1000000", *way, "--out", str(folder)]
        with open(os.devnull, "w") as nowhere:
            command = subprocess.Popen(words, env={**os.environ, TAG: tag}, stdout=nowhere, stderr=nowhere)
        if from_ranks:  # every other time, the two seconds begin when a rank exists
            wait_until(lambda tag=tag: len(tagged(tag)) > 1, 60)
        moment = chance.uniform(0, 2)
        time.sleep(moment)
        command.kill()
        command.wait()
        wait_until(lambda tag=tag: not tagged(tag), GONE_SECONDS)
        if stayed := tagged(tag):
            left += 1
            print(f"  {name}, killed after {moment:.2f} s: {len(stayed)} left after {GONE_SECONDS:g} s", flush=True)
            for pid in stayed:
                psutil.Process(pid).kill()
    return left


def wait_until(condition: object, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:  # type: ignore[operator]
        time.sleep(0.05)


def mpi_runs(count: int, folder: Path) -> Iterator[tuple[str, str]]:
    """Where each run was made, and its status."""
    ways = {**MPI_RUNS, **(MPI_ON_NODES if os.geteuid() == 0 else {})}
    for number in range(count):
        name, way = list(ways.items())[number % len(ways)]
        words = [*TRAIN, "--batch-size", "16", "--steps", "3", "--transport", "mpi", *way, "--out", str(folder)]
        done = subprocess.run([*words, "--json"], capture_output=True, text=True)
        status = json.loads(done.stdout)["status"] if done.stdout else "no summary"
        if done.returncode:
            print(f"  {name}: {status}: {done.stderr.strip()}", flush=True)
        yield name, status


def script_ends(count: int, folder: Path) -> Iterator[tuple[int, str]]:
    """The exit code of each torchrun, and the status of its record; with one strategy after another."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]

    def run(number: int) -> tuple[int, str]:
        place = folder / f"script-{number}"
        words = [*launch, AGREEING[number % len(AGREEING)], str(place)]
        done = subprocess.run(words, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
        status = status_of(place) if place.exists() else "no record"
        if done.returncode or status != "completed":
            print(f"  {words[-2]}: {status}: {done.stderr[-2000:]}", flush=True)
        return done.returncode, status

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as at_once:
        yield from at_once.map(run, range(count))


def status_of(folder: Path) -> str:
    """A record is complete if every rank has written every step, and its end."""
    run = read_run(folder)
    counts = [len(run.steps(rank)) for rank in range(2)]
    return run.status if counts == [STEPS, STEPS] else f"{run.status}, with {counts} steps of {STEPS}"


def main() -> None:
    given = asked(__doc__, kills=(8, 1), mpi_runs=(6, 1), scripts=(8, 1), seed=(0, 0))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        left = kill_commands(given.kills, place / "killed", given.seed)
        print(f"{given.kills} commands killed: {left} left a process behind for more than 5 s", flush=True)
        if not HAS_MPI:
            print("no MPI runs: pip install 'gradsync[mpi]'")
        ends = list(mpi_runs(given.mpi_runs if HAS_MPI else 0, place / "mpi"))
        for name in dict(ends):
            statuses = [status for place_of, status in ends if place_of == name]
            print(f"MPI, {name}: {statuses.count('completed')} of {len(statuses)} completed", flush=True)
        scripts = list(script_ends(given.scripts, place))
        codes, statuses = ([each[item] for each in scripts] for item in (0, 1))
        print(
            f"torchrun scripts with attach(record=...): {codes.count(0)} of {len(codes)} ended with exit code 0, "
            f"{statuses.count('completed')} left a complete record"
        )
    bad = left or any(codes) or any(status != "completed" for _, status in (*ends, *scripts))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
