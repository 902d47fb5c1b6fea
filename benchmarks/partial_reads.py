"""How much of CIFAR-10 is in the memory of each rank after an epoch, for 1, 2 and 4 ranks: it should fall as 1/N.

    python benchmarks/partial_reads.py [--ranks 1,2,4]

Mapped files: resident pages of the mappings of the training set (/proc/self/smaps). Over MPI: what was read through
MPI-IO. Nothing is trained, the batches are only made. Needs the real CIFAR-10; a minute.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from gradsync import data, models
from gradsync.comm import mpi
from gradsync.data.loader import Loader
from gradsync.data.rows import map_rows
from gradsync.launch.mpi import LOOPBACK_ONLY, find_mpiexec

READERS = {"mapped": map_rows, "mpi": mpi.read_rows}


def one_rank(rank: int, size: int, how: str) -> None:
    parts = data.Parts(data.Wanted(rank=rank, size=size))
    before = private_memory()
    begin = time.monotonic()
    samples = data.load("cifar10", native=models.native_data("vgg11"), parts=parts, verify=False, read=READERS[how])
    read = time.monotonic() - begin
    held = private_memory() - before if how == "mpi" else 0
    for _ in Loader(samples.train, batch_size=100 * size, rank=rank, size=size).epoch(1):
        pass
    print(json.dumps({"bytes": held if how == "mpi" else mapped_training_set(), "read": read}))


def mapped_training_set() -> int:
    """Resident bytes of the mappings of the five training batches."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0] and not line.split()[0].endswith(":"):
            ours = "data_batch_" in line
        elif ours and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def private_memory() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # size, how: one rank, started by the lines below
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        size, how = int(asked.one[0]), asked.one[1]
        return one_rank(mpi.mpi().COMM_WORLD.Get_rank() if how == "mpi" else asked.rank, size, how)
    ways = ["mapped", *(["mpi"] if importlib.util.find_spec("mpi4py") else [])]
    for how in ways:
        for size in map(int, asked.ranks.split(",")):
            found = [json.loads(line) for line in start(size, how).splitlines() if line.startswith("{")]
            megabytes = ", ".join(f"{item['bytes'] / 1e6:.1f}" for item in found)
            slowest = max(item["read"] for item in found)
            print(
                f"{how}, {size} ranks: {megabytes} MB of the training set in each; read in {slowest:.2f} s",
                flush=True,
            )


def start(size: int, how: str) -> str:
    own = [sys.executable, __file__, "--one", str(size), how]
    if how == "mpi":
        command = [*find_mpiexec(None), "-n", str(size), *own]
        environment = LOOPBACK_ONLY | os.environ
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return "".join(
        subprocess.run([*own, "--rank", str(rank)], capture_output=True, text=True, check=True).stdout
        for rank in range(size)
    )


if __name__ == "__main__":
    main()
