"""Messages over MPI, through mpi4py: tensors are passed as buffers, without a copy.

MPI makes progress only while one of its functions is called. Communication that overlaps with computation therefore
has a thread of its own, over a duplicate of the world, so that its collectives do not mix with others.
"""

from __future__ import annotations

import sys
import time
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.futures import Future

from gradsync.comm.base import Background, Comm, flat
from gradsync.errors import InputError, truncated
from gradsync.meter.recorder import Stopwatch

SHORTEST_NAP, LONGEST_NAP = 5e-6, 5e-4  # seconds between two polls for a message


@lru_cache
def mpi() -> Any:
    """mpi4py's MPI, initialized for several threads."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise InputError(f"--transport mpi needs mpi4py and an MPI: pip install 'gradsync[mpi]' ({error}).") from None
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise InputError(
            f"this MPI ({MPI.Get_library_version().split(',')[0].strip()}) does not let several threads send "
            "(MPI_THREAD_MULTIPLE), which gradsync needs. HINT: pip install 'gradsync[mpi]' brings one that does."
        )
    return MPI


@lru_cache
def background() -> tuple[Background, Any]:
    """The thread for communication that overlaps with computation, and the communicator of its own."""
    return Background("mpi"), mpi().COMM_WORLD.Dup()


def check_world(expected: int, started_by: str = "mpiexec") -> None:
    """Refuse the mpiexec of one MPI with the library of another: every process would find itself alone."""
    size = mpi().COMM_WORLD.Get_size()
    if size == expected:
        return
    library = mpi().Get_library_version().splitlines()[0].strip()
    if size == 1 and started_by == "srun":
        raise InputError(
            f"the run has {expected} ranks, but this one finds itself alone in its MPI world: srun's MPI "
            f"plugin does not match the library mpi4py has loaded ({library}). HINT: srun --mpi=pmi2."
        )
    if size == 1:
        raise InputError(
            f"the run has {expected} ranks, but this one finds itself alone in its MPI world: mpiexec belongs "
            f"to another MPI than the library mpi4py has loaded ({library}). HINT: use the mpiexec of that library, "
            "for instance --mpiexec with the one next to your Python."
        )
    raise InputError(f"the run has {expected} ranks, but {started_by} started {size}.")


class MpiComm(Comm):
    """MPI_COMM_WORLD."""

    transport = "mpi"

    def __init__(self, meter: Stopwatch | None = None) -> None:
        self._world = mpi().COMM_WORLD
        super().__init__(self._world.Get_rank(), self._world.Get_size(), meter)
        if self.size > 1:
            background()  # collective: all ranks create it together

    def _all_reduce(self, block: Tensor) -> None:
        self._world.Allreduce(mpi().IN_PLACE, buffer(block))

    def _all_reduce_later(self, block: Tensor) -> Future[Any]:
        thread, own_world = background()
        return thread.run(lambda: own_world.Allreduce(mpi().IN_PLACE, buffer(block)))

    def _reduce(self, block: Tensor, target: int) -> None:
        if self.rank == target:
            self._world.Reduce(mpi().IN_PLACE, buffer(block), root=target)
        else:
            self._world.Reduce(buffer(block), None, root=target)

    def _broadcast(self, block: Tensor, source: int) -> None:
        self._world.Bcast(buffer(block), root=source)

    def _gather(self, block: Tensor, into: Tensor | None, target: int) -> None:
        self._world.Gather(buffer(block), buffer(into) if into is not None else None, root=target)

    def _scatter(self, block: Tensor, parts: list[Tensor] | None, source: int) -> None:
        rows = buffer(one_block(parts)) if parts is not None else None
        self._world.Scatter(rows, buffer(block), root=source)

    def _reduce_scatter(self, rows: Tensor, into: Tensor) -> None:
        self._world.Reduce_scatter_block(buffer(rows), buffer(into))

    def _all_gather(self, block: Tensor, into: Tensor) -> None:
        self._world.Allgather(buffer(block), buffer(into))

    def _exchange(self, outgoing: Tensor, target: int, incoming: Tensor, source: int) -> None:
        self._world.Sendrecv(buffer(outgoing), dest=target, recvbuf=buffer(incoming), source=source)

    def _send(self, tensor: Tensor, target: int, tag: int) -> None:
        self._world.Send(buffer(tensor), dest=target, tag=tag)

    def _receive(self, tensor: Tensor, source: int, tag: int) -> None:
        """Poll, with sleeps in between: MPI's own waiting keeps a core busy for every thread that waits."""
        request = self._world.Irecv(buffer(tensor), source=source, tag=tag)
        nap = SHORTEST_NAP
        while not request.Test():
            time.sleep(nap)
            nap = min(nap * 1.5, LONGEST_NAP)


def buffer(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The tensor's own memory."""
    return flat(tensor.detach()).numpy()


def one_block(parts: list[Tensor]) -> Tensor:
    """The parts one after another in memory; no copy if they are the rows of one tensor."""
    first = parts[0]
    adjacent = all(
        part.data_ptr() == first.data_ptr() + number * first.nbytes
        and part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        for number, part in enumerate(parts)
    )
    if adjacent:
        return torch.as_strided(first, (len(parts) * first.numel(),), (1,))
    return torch.stack(parts)


def read_rows(path: Path, offset: int, row_bytes: int, first: int, last: int) -> np.ndarray[Any, Any]:
    """Rows ``first`` to ``last`` of a file, read by all ranks together, each its own (MPI-IO)."""
    rows = np.empty((last - first, row_bytes), np.uint8)
    begin, read = offset + first * row_bytes, mpi().Status()
    try:
        file = mpi().File.Open(mpi().COMM_WORLD, str(path), mpi().MODE_RDONLY)
    except mpi().Exception as error:
        raise InputError(f"cannot read {path}: {error.Get_error_string()}.") from None
    try:
        file.Read_at_all(begin, rows, read)
    finally:
        file.Close()
    if (count := read.Get_count(mpi().BYTE)) < rows.size:  # the rest is whatever was in memory
        raise truncated(path, begin + rows.size, begin + count)
    return rows


@cache  # installed once, however many models a script attaches
def abort_on_error() -> None:
    """In a user's script, let an error end all ranks. Otherwise mpi4py waits for the others when Python exits."""
    show = sys.excepthook

    def show_and_abort(*error: Any) -> None:
        show(*error)
        abort(1)

    sys.excepthook = show_and_abort


def abort(code: int) -> None:
    """End all ranks."""
    sys.stdout.flush()
    sys.stderr.flush()
    mpi().COMM_WORLD.Abort(code)


def raised(error: BaseException) -> bool:
    """Whether this is MPI's own error: its collectives fail in some ranks when another is killed."""
    return mpi.cache_info().currsize > 0 and isinstance(error, mpi().Exception)


def leave() -> bool:
    """Finalize MPI once every rank has done its part; return whether it was in use."""
    if not mpi.cache_info().currsize or mpi().Is_finalized():
        return False
    mpi().Finalize()
    return True
