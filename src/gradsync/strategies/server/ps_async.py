"""A parameter server without a barrier: every gradient is applied as soon as it arrives."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim import Optimizer

from gradsync.comm import Comm
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.strategies.server.base import Roles
from gradsync.strategies.server.parameter_server import ParameterServer
from gradsync.strategies.server.server import AsyncServer


class PsAsync(ParameterServer):
    """1. A worker pushes the gradient of its share, computed with parameters that it pulled some updates ago.

    2. The server makes one update with it, unless the gradient is staler than ``max_staleness``: then it is dropped
       and counted. ``lr_by_staleness`` divides the learning rate by the staleness.
    3. The worker pulls the current parameters.

    A worker that is slow, finishes or dies does not hold up the others; only over MPI does a worker that dies end the
    run. Cost per step: that of every parameter server. One worker computes what a single process computes; several do
    not, because their gradients are stale.
    """

    asynchronous = True

    def __init__(
        self,
        comm: Comm,
        *,
        buffers: Buffers | None = None,
        roles: Roles | None = None,
        max_staleness: int | None = None,
        lr_by_staleness: bool = False,
    ) -> None:
        super().__init__(comm, buffers=buffers, roles=roles)
        if max_staleness is not None and max_staleness < 0:
            raise InputError(f"--options.max-staleness is {max_staleness}: it must be 0 or more.")
        self.max_staleness = max_staleness
        self.lr_by_staleness = lr_by_staleness

    @classmethod
    def spare_workers(cls, workers: int, **options: Any) -> int:
        return workers - 1

    def make_server(self, parameters: list[nn.Parameter], optimizer: Optimizer) -> AsyncServer:
        return AsyncServer(
            *(parameters, optimizer, self.roles.workers),
            max_staleness=self.max_staleness,
            lr_by_staleness=self.lr_by_staleness,
        )

    @property
    def replicas_differ(self) -> bool:
        return self.roles.workers > 1
