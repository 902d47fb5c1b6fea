"""A parameter server that waits for nobody: every gradient is an update as soon as it comes."""

from __future__ import annotations

from torch import nn
from torch.optim import Optimizer

from gradsync.comm import Comm
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.strategies.base import Roles
from gradsync.strategies.parameter_server import ParameterServer
from gradsync.strategies.server import AsyncServer


class PsAsync(ParameterServer):
    """1. A worker pushes the gradient of its share, computed with parameters it read some updates ago.

    2. The server makes one update with it, unless it is staler than ``max_staleness`` (dropped and counted);
       ``lr_by_staleness`` divides the learning rate by the staleness.
    3. The worker pulls the parameters as they are now.

    No barrier anywhere: a worker that is slow, ends or dies does not hold up the others (over MPI, one that dies
    takes all with it). Cost per step: as every parameter server's. N workers do not compute what one computes, by
    design; one worker does.
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

    def make_server(self, parameters: list[nn.Parameter], optimizer: Optimizer) -> AsyncServer:
        return AsyncServer(
            *(parameters, optimizer, self.roles.workers),
            max_staleness=self.max_staleness,
            lr_by_staleness=self.lr_by_staleness,
        )

    @property
    def replicas_differ(self) -> bool:
        return self.roles.workers > 1
