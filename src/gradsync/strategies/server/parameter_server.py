"""The worker's half of a parameter server, and who plays which part."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from gradsync.comm import Comm, LostPeer, Traffic
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.strategies.base import Roles, Strategy
from gradsync.strategies.packed import Packed
from gradsync.strategies.server import Server

PUSH, REPLY = 1, 2  # tags: a rank can be server and worker at once
GRADIENT, GOODBYE = 0, 1  # what comes after the header


class ParameterServer(Strategy, ABC):
    """Each server holds a shard of the parameters, and the optimizer's state for it. A step of a worker:

    1. push: a header with the version its parameters have, and its gradient, to every server;
    2. pull: a header with the new version, and the parameters of that version, from every server.

    Cost per step: S bytes sent and received per worker; with N workers and s servers, N·S/s each way per server.
    """

    takes_roles = has_servers = True

    def __init__(self, comm: Comm, *, buffers: Buffers | None = None, roles: Roles | None = None) -> None:
        super().__init__(comm, buffers=buffers)
        self.roles = roles or Roles()
        self.is_worker = comm.rank < self.roles.workers
        self.is_server = comm.rank in self.roles.servers
        self._header = torch.zeros(2, dtype=torch.int64)
        self._version = [0] * len(self.roles.servers)
        shards = range(len(self.roles.servers))
        self._here = [shard for shard in shards if self.roles.servers[shard] == comm.rank]
        self._remote = [shard for shard in shards if shard not in self._here]

    @abstractmethod
    def make_server(self, parameters: list[nn.Parameter], optimizer: Optimizer) -> Server:
        """When gradients are applied is the server's business."""

    def attach(self, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        super().attach(model, optimizer)
        parts = shards([parameter for _, parameter in self._trainable], len(self.roles.servers))
        self._shard_bytes = [sum(parameter.nbytes for parameter in part) for part in parts]
        trained = model
        if self.is_worker and self.is_server:  # the server keeps the parameters the optimizer knows
            trained = copy.deepcopy(model)
        if self.is_server:
            (own,) = self._here
            self.server = self.make_server(parts[own], optimizer)
        if self.is_worker:
            self.model = self._forward = trained
            self._trainable = [(name, p) for name, p in trained.named_parameters() if p.requires_grad]
            parts = shards([parameter for _, parameter in self._trainable], len(self.roles.servers))
            self._parameters = [Packed(part) for part in parts]
            for packed in self._parameters:
                packed.hold_parameters()
            self._gradients = [Packed(part) for part in parts]
        return self._forward

    # --- the worker ---

    def step(self) -> None:
        phase = self.comm.meter.phase
        phase("agree")
        self.gradients()  # refuses what has none
        for packed in self._gradients:
            for parameter in packed.parameters:
                packed.take(parameter, 1.0)
        finished = [0] * len(self.roles.servers)
        for shard in self._remote:
            self._send_header(shard, GRADIENT)
            self.comm.send(self._gradients[shard].block, self.roles.servers[shard], "gradients", PUSH)
        for shard in self._here:
            self.comm.stamped_wait(lambda shard=shard: self._push_here(shard, finished))  # type: ignore[misc]
        for shard in self._remote:
            self.comm.receive(self._header, self.roles.servers[shard], "control", REPLY)
            self.comm.receive(self._parameters[shard].block, self.roles.servers[shard], "parameters", REPLY)
            self._version[shard], finished[shard] = self._header.tolist()
        self.finished = all(finished)
        phase("other")
        self._buffer_sync()
        self.model.zero_grad()

    def _push_here(self, shard: int, finished: list[int]) -> None:
        self.server.inbox(self.comm.rank).copy_(self._gradients[shard].block)
        reply = self.server.push(self.comm.rank, self._version[shard])
        self._parameters[shard].block.copy_(reply.parameters)
        self._version[shard], finished[shard] = reply.version, reply.finished

    def _send_header(self, shard: int, what: int) -> None:
        self._header[0], self._header[1] = self._version[shard], what
        self.comm.send(self._header, self.roles.servers[shard], "control", PUSH)

    def finish(self) -> None:
        for shard in self._remote:
            self._send_header(shard, GOODBYE)
            self.comm.receive(self._header, self.roles.servers[shard], "control", REPLY)  # it has noted it
        if self._here:
            self.server.leave(self.comm.rank)
            self.serve()

    def facts(self) -> dict[str, Any]:
        """How many updates the first server had made when this worker last read from it."""
        return {"update": self._version[0]}

    # --- the server ---

    def begin(self, note: Callable[..., None]) -> None:
        if not self.is_server:
            return
        self.server.note = note
        others = [worker for worker in range(self.roles.workers) if worker != self.comm.rank]
        pool = ThreadPoolExecutor(max(1, len(others)), "server")
        comm = self.comm.unmetered()  # these messages are not part of a step of this process
        self._serving = [pool.submit(self._serve_worker, worker, comm) for worker in others]
        pool.shutdown(wait=False)

    def serve(self) -> None:
        """Until every worker has said goodbye or is lost. What goes wrong in the server is raised here."""
        for thread in as_completed(self._serving):
            thread.result()

    def _serve_worker(self, worker: int, comm: Comm) -> None:
        header = torch.zeros(2, dtype=torch.int64)
        server = self.server
        try:
            while True:
                comm.receive(header, worker, "control", PUSH)
                version, what = header.tolist()
                if what == GOODBYE:
                    server.note("goodbye", worker=worker)
                    comm.send(header, worker, "control", REPLY)
                    return
                comm.receive(server.inbox(worker), worker, "gradients", PUSH)
                reply = server.push(worker, version)
                header[0], header[1] = reply.version, reply.finished
                comm.send(header, worker, "control", REPLY)
                comm.send(reply.parameters, worker, "parameters", REPLY)
        except LostPeer as lost:
            if not lost.rank == worker:
                raise  # the others are too few now
            server.note("lost", worker=worker, message=str(lost))
        finally:
            server.leave(worker)

    def wire_bytes(self) -> Traffic:
        """Per step of a worker; of a process that only serves, per gradient pushed to it."""
        served = sum(self._shard_bytes[shard] for shard in self._here)
        if not self.is_worker:
            return Traffic(served, served)
        remote = sum(self._shard_bytes[shard] for shard in self._remote)
        each = remote + served * (self.roles.workers - 1)
        return Traffic(each, each)


def shards(parameters: list[nn.Parameter], count: int) -> list[list[nn.Parameter]]:
    """Whole parameters, the largest first, each to the shard with the fewest bytes; in the order of the model."""
    if count > len(parameters):
        raise InputError(f"{count} servers cannot divide {len(parameters)} parameters among them: use fewer.")
    if len({(parameter.dtype, parameter.device) for parameter in parameters}) > 1:
        raise InputError("a parameter server takes models whose parameters have one number format and device.")
    filled = [0] * count
    shard_of: dict[Any, int] = {}
    for parameter in sorted(parameters, key=lambda item: -item.nbytes):
        least = min(range(count), key=filled.__getitem__)
        shard_of[parameter] = least
        filled[least] += parameter.nbytes
    return [[parameter for parameter in parameters if shard_of[parameter] == shard] for shard in range(count)]
