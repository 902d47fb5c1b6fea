"""Rows of a file through MPI-IO, in a process of its own: MPI stays in a process once it is there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")

PROGRAM = """
import sys
from pathlib import Path
from gradsync.comm.mpi import read_rows
from gradsync.errors import InputError
try:
    print(read_rows(Path(sys.argv[1]), 3, 5, 2, 10).tolist())
except InputError as error:
    print(error)
"""


def read(path: Path) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_short_read_is_an_error_and_not_what_was_in_memory(tmp_path: Path):
    path = tmp_path / "rows"
    path.write_bytes(b"xyz" + bytes(range(50)))
    assert read(path) == f"{[list(range(5 * row, 5 * row + 5)) for row in range(2, 10)]}\n"
    path.write_bytes(path.read_bytes()[:-7])
    assert f"{path} is truncated: 53 bytes are needed, but it has 46." in read(path)
    path.unlink()
    assert f"cannot read {path}: " in read(path)


FAILED_MESSAGE = """
from gradsync.comm import mpi
from gradsync.rank.facts import is_lost_peer
own_mistake = is_lost_peer(ValueError("no"))
try:
    mpi.mpi().COMM_WORLD.Send(bytearray(1), dest=7)
except Exception as error:
    print(own_mistake, is_lost_peer(error))
"""


def test_an_error_of_mpi_itself_is_not_the_cause_of_a_failed_run():
    """A collective fails in some of the ranks when another is killed; mpiexec may end them only after that."""
    done = subprocess.run([sys.executable, "-c", FAILED_MESSAGE], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False True\n", done.stderr
