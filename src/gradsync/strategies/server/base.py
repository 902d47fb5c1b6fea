"""What a strategy with servers adds to the contract of every strategy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from gradsync.comm import Comm
from gradsync.config import Buffers
from gradsync.strategies.base import Strategy

Note = Callable[..., None]
"""Writes a row into the record of this rank: its kind, and values by name."""


@dataclass(frozen=True)
class Roles:
    """Workers are ranks 0 to ``workers`` − 1; servers are the given ranks, which may be those of workers."""

    workers: int = 1
    servers: tuple[int, ...] = (0,)
    updates: int = 1
    """The number of parameter updates planned for the run."""


class ServerStrategy(Strategy, ABC):
    """Some ranks serve, others train, and a rank may do both.

    A rank that trains calls ``begin``, then ``step`` until ``finished``, then ``finish``. A rank that only serves
    calls ``begin`` and ``serve``.
    """

    has_servers: ClassVar[bool] = True

    asynchronous: ClassVar[bool] = False
    """Every gradient is an update of its own, and workers finish at different times. Exact with one worker only."""

    def __init__(self, comm: Comm, *, buffers: Buffers | None = None, roles: Roles | None = None) -> None:
        super().__init__(comm, buffers=buffers)
        self.roles = roles or Roles()
        self.is_worker = comm.rank < self.roles.workers
        self.is_server = comm.rank in self.roles.servers
        self.finished = False
        """The servers have made their last update: this worker stops after the step."""

    @classmethod
    def spare_workers(cls, workers: int, **options: Any) -> int:
        """How many of ``workers`` may be lost without ending a run with these options."""
        return 0

    @abstractmethod
    def begin(self, note: Note) -> None:
        """Before the first step: start serving if this rank is a server, with ``note`` to write into its record."""

    @abstractmethod
    def finish(self) -> None:
        """After a worker's last step: sign off from the servers, and serve on until all workers have done so."""

    @abstractmethod
    def serve(self) -> None:
        """Wait until every worker has finished or is lost. An error in the server is raised here."""

    def step_facts(self) -> dict[str, Any]:
        """Values for the record of this step, in addition to those of every strategy."""
        return {}
