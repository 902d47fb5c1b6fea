"""The parameter server as a strategy: what its workers do, and the threads through which a server answers them."""

from __future__ import annotations

import copy
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from gradsync.comm import Comm, LostPeer, Traffic
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.strategies.gradients.packed import Packed
from gradsync.strategies.server.base import Note, Roles, ServerStrategy
from gradsync.strategies.server.server import Server

PUSH, REPLY = 1, 2  # message tags, as a rank can be server and worker at once
GRADIENT, GOODBYE = 0, 1  # in the header: a gradient follows, or the worker leaves


class ParameterServer(ServerStrategy):
    """Each server holds a shard of the parameters and the optimizer state for it. A step of a worker:

    1. push: to every server a header with the version of its parameters, and its gradient;
    2. pull: from every server a header with the new version, and the parameters of that version.

    Cost per step: S bytes sent and received per worker; with N workers and s servers, N·S/s each way per server.
    """

    def __init__(self, comm: Comm, *, buffers: Buffers | None = None, roles: Roles | None = None) -> None:
        super().__init__(comm, buffers=buffers, roles=roles)
        self._header = torch.zeros(2, dtype=torch.int64)
        shards = range(len(self.roles.servers))
        self._here = [shard for shard in shards if self.roles.servers[shard] == comm.rank]
        self._remote = [shard for shard in shards if shard not in self._here]

    @abstractmethod
    def make_server(self, parameters: list[nn.Parameter], optimizer: Optimizer) -> Server:
        """This rank's server, which decides when a gradient is applied."""

    def attach(self, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        super().attach(model, optimizer)
        self.finished = False
        self._version = [0] * len(self.roles.servers)
        parts = shards([parameter for _, parameter in self._trainable], len(self.roles.servers))
        self._shard_bytes = [sum(parameter.nbytes for parameter in part) for part in parts]
        trained = model
        if self.is_worker and self.is_server:  # the given model, which the optimizer knows, is the server's
            trained = copy.deepcopy(model)
            self.on_detach(lambda: self._return_to(model))
        if self.is_server:
            (own,) = self._here
            self.server = self.make_server(parts[own], optimizer)
            self.on_detach(self.server.close)
        if self.is_worker:
            self.model = self.forward = trained
            self._trainable = [(name, p) for name, p in trained.named_parameters() if p.requires_grad]
            parts = shards([parameter for _, parameter in self._trainable], len(self.roles.servers))
            self._parameters = [Packed(part) for part in parts]
            for packed in self._parameters:
                packed.hold_parameters()
            self._gradients = [Packed(part) for part in parts]
        return self.forward

    def _return_to(self, model: nn.Module) -> None:
        """Copy this worker's parameters and buffers back into the model that ``attach`` was given."""
        model.load_state_dict(self.model.state_dict())
        self.model = model

    # --- the worker ---

    def update(self, scaler: GradScaler | None = None) -> None:
        """The server makes the update: it may clip the mean in a hook of its optimizer, and knows of no scaler."""
        assert scaler is None
        self.gradients()  # refuses parameters without one
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
        self.comm.meter.phase("other")
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
            self.comm.receive(self._header, self.roles.servers[shard], "control", REPLY)  # the server has recorded it
        if self._here:
            self.server.leave(self.comm.rank)
            self.serve()

    def step_facts(self) -> dict[str, Any]:
        """How many updates the first server had made when this worker last pulled its parameters."""
        return {"update": self._version[0]}

    # --- the server ---

    def begin(self, note: Note) -> None:
        if not self.is_server:
            return
        self.server.note = note
        others = [worker for worker in range(self.roles.workers) if worker != self.comm.rank]
        pool = ThreadPoolExecutor(max(1, len(others)), "server")
        comm = self.comm.unmetered()  # these messages belong to no step of this process
        self._serving = [pool.submit(self._serve_worker, worker, comm) for worker in others]
        pool.shutdown(wait=False)

    def serve(self) -> None:
        """Wait until every worker has said goodbye or is lost. An error in the server is raised here."""
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
                raise  # too few workers are left for an update
            server.note("lost", worker=worker, message=str(lost))
        finally:
            server.leave(worker)

    def gradient_traffic(self, count: int) -> Traffic:
        """Per step of a worker; for a process that only serves, per gradient pushed to it."""
        served = sum(self._shard_bytes[shard] for shard in self._here)
        if not self.is_worker:
            return Traffic(served, served)
        remote = sum(self._shard_bytes[shard] for shard in self._remote)
        each = remote + served * (self.roles.workers - 1)
        return Traffic(each, each)


def shards(parameters: list[nn.Parameter], count: int) -> list[list[nn.Parameter]]:
    """Assign whole parameters, the largest first, each to the shard with the fewest bytes so far."""
    if count > len(parameters):
        raise InputError(f"{count} servers cannot divide {len(parameters)} parameters among them: use fewer servers.")
    if len({(parameter.dtype, parameter.device) for parameter in parameters}) > 1:
        raise InputError("a parameter server needs trainable parameters of one number format on one device.")
    filled = [0] * count
    shard_of: dict[Any, int] = {}
    for parameter in sorted(parameters, key=lambda item: -item.nbytes):
        least = min(range(count), key=filled.__getitem__)
        shard_of[parameter] = least
        filled[least] += parameter.nbytes
    return [[parameter for parameter in parameters if shard_of[parameter] == shard] for shard in range(count)]
