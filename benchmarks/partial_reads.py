"""How much of CIFAR-10 is in the memory of each rank after an epoch, for 1, 2 and 4 ranks: it should fall as 1/N.

    python benchmarks/partial_reads.py [--smoke]    about 1 minute; expected: 154 MB, 77 MB and 38 MB in each

For mapped files this counts the resident pages of the mappings of the training set (/proc/self/smaps), over MPI the
memory that reading through MPI-IO takes. Nothing is trained, only the batches are made. Where the real CIFAR-10 is
not found, and with --smoke, empty files of the same size take its place.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from arguments import asked
from gradsync import data, models
from gradsync.comm import mpi
from gradsync.data.loader import Loader
from gradsync.data.rows import map_rows
from gradsync.launch.mpi.mpiexec import LOOPBACK_ONLY, find_mpiexec

IMAGES, ROW_BYTES = 10_000, 1 + 3 * 32 * 32  # of each file of CIFAR-10
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
    if sys.argv[1:2] == ["--one"]:  # one rank, started by the lines below
        rank, size, how = sys.argv[2:]
        return one_rank(mpi.mpi().COMM_WORLD.Get_rank() if how == "mpi" else int(rank), int(size), how)
    given = asked(__doc__, ranks=("1,2,4", "2"))
    ways = ["mapped", *(["mpi"] if importlib.util.find_spec("mpi4py") else [])]
    with tempfile.TemporaryDirectory() as folder:
        if given.smoke or data.FILE_SETS["cifar10"].locate(data.data_folder()) is None:
            make_up(Path(folder))
            os.environ["GRADSYNC_DATA"] = folder
            print("empty files of CIFAR-10's size:")
        for how in ways:
            for size in map(int, given.ranks.split(",")):
                show(how, [json.loads(line) for line in start(size, how).splitlines() if line.startswith("{")])


def make_up(folder: Path) -> None:
    """Six sparse files, which take no space on the disk."""
    (folder / "cifar-10-batches-bin").mkdir()
    for name in data.FILE_SETS["cifar10"].contents:
        with open(folder / "cifar-10-batches-bin" / f"{name}.bin", "wb") as file:
            file.truncate(IMAGES * ROW_BYTES)


def show(how: str, found: list[dict[str, float]]) -> None:
    megabytes = ", ".join(f"{item['bytes'] / 1e6:.1f}" for item in found)
    slowest = max(item["read"] for item in found)
    print(
        f"{how}, {len(found)} ranks: {megabytes} MB of the training set in each; read in {slowest:.2f} s", flush=True
    )


def start(size: int, how: str) -> str:
    if how == "mpi":
        command = [*find_mpiexec(None, one_host=True), "-n", str(size), *one(0, size, how)]
        environment = LOOPBACK_ONLY | os.environ
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    commands = [one(rank, size, how) for rank in range(size)]
    return "".join(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout for words in commands)


def one(rank: int, size: int, how: str) -> list[str]:
    return [sys.executable, __file__, "--one", str(rank), str(size), how]


if __name__ == "__main__":
    main()
