"""Messages over MPI, through mpi4py: tensors are handed over as the buffers they are.

MPI looks after messages only while one of its functions is called. What must go on while this rank computes is
therefore done by a thread of its own, over a duplicate of the world, so that its collectives do not meet others.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.futures import Future

from gradsync.comm.base import Background, Comm, flat
from gradsync.errors import InputError, truncated
from gradsync.meter.recorder import Stopwatch

SHORTEST_NAP, LONGEST_NAP = 5e-6, 5e-4  # seconds between two looks for a message


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
    """The thread for what goes on while this rank computes, and the communicator it has for itself."""
    return Background("mpi"), mpi().COMM_WORLD.Dup()


def check_world(expected: int, started_by: str = "mpiexec") -> None:
    """mpiexec of one MPI and library of another: every process finds itself alone."""
    size = mpi().COMM_WORLD.Get_size()
    if size == expected:
        return
    library = mpi().Get_library_version().splitlines()[0].strip()
    if size == 1 and started_by == "srun":
        raise InputError(
            f"the run is for {expected} processes, but this one finds itself alone in its MPI world: srun does not "
            f"speak with the library mpi4py has loaded ({library}). HINT: srun --mpi=pmi2."
        )
    if size == 1:
        raise InputError(
            f"the run is for {expected} processes, but this one finds itself alone in its MPI world: mpiexec belongs "
            f"to another MPI than the library mpi4py has loaded ({library}). HINT: use the mpiexec of that library, "
            "for instance --mpiexec with the one beside your python."
        )
    raise InputError(f"the run is for {expected} processes, but {started_by} started {size}.")


class MpiComm(Comm):
    """MPI_COMM_WORLD."""

    transport = "mpi"

    def __init__(self, meter: Stopwatch | None = None) -> None:
        self._world = mpi().COMM_WORLD
        super().__init__(self._world.Get_rank(), self._world.Get_size(), meter)
        if self.size > 1:
            background()  # made by all ranks together

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
        """Looks again and again, with naps: MPI's own waiting keeps a core busy for every thread that waits."""
        request = self._world.Irecv(buffer(tensor), source=source, tag=tag)
        nap = SHORTEST_NAP
        while not request.Test():
            time.sleep(nap)
            nap = min(nap * 1.5, LONGEST_NAP)


def buffer(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The tensor's own memory."""
    return flat(tensor.detach()).numpy()


def one_block(parts: list[Tensor]) -> Tensor:
    """The parts behind each other; without a copy if they are the rows of one tensor."""
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


def abort_on_error() -> None:
    """In a script of the user's: an error ends all ranks. Otherwise mpi4py waits for the others when Python ends."""
    show = sys.excepthook

    def show_and_abort(*error: Any) -> None:
        show(*error)
        sys.stderr.flush()
        mpi().COMM_WORLD.Abort(1)

    sys.excepthook = show_and_abort


def leave() -> bool:
    """Whether there was an MPI to leave, in which every rank has done its part."""
    if not mpi.cache_info().currsize or mpi().Is_finalized():
        return False
    mpi().Finalize()
    return True
