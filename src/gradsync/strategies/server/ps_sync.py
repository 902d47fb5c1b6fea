"""A parameter server that waits for its workers: one update from the gradients of all, or of the first k."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim import Optimizer

from gradsync.comm import Comm
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.strategies.server.base import Roles
from gradsync.strategies.server.parameter_server import ParameterServer
from gradsync.strategies.server.server import Combine, SyncServer


class PsSync(ParameterServer):
    """1. Workers push the gradients of their shares.

    2. When all gradients have arrived, the server makes one update with their mean, or with their sum where
       ``combine`` is sum. With ``aggregate`` k it waits for the first k only: the other workers are backup workers,
       whose late gradients are dropped and counted.
    3. Workers pull the new parameters.

    Cost per step: that of every parameter server. With the mean of all workers, the same mathematics as all-reduce.
    """

    def __init__(
        self,
        comm: Comm,
        *,
        buffers: Buffers | None = None,
        roles: Roles | None = None,
        aggregate: int | None = None,
        combine: Combine = "mean",
    ) -> None:
        super().__init__(comm, buffers=buffers, roles=roles)
        workers = self.roles.workers
        if aggregate is not None and not 1 <= aggregate <= workers:
            raise InputError(
                f"--options.aggregate is {aggregate}: it must be from 1 to {workers}, the number of workers."
            )
        self.aggregate = aggregate or workers
        self.combine = combine

    @classmethod
    def spare_workers(cls, workers: int, **options: Any) -> int:
        return max(0, workers - (options.get("aggregate") or workers))

    def make_server(self, parameters: list[nn.Parameter], optimizer: Optimizer) -> SyncServer:
        return SyncServer(
            *(parameters, optimizer, self.roles.workers),
            aggregate=self.aggregate,
            combine=self.combine,
            updates=self.roles.updates,
        )

    @property
    def replicas_differ(self) -> bool:
        return super().replicas_differ or self.aggregate < self.roles.workers
