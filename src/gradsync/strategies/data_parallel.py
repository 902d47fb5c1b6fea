"""One process with a replica of the model per device: the batch is split and the outputs are gathered."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gradsync.comm import Comm, Traffic
from gradsync.config import Buffers
from gradsync.errors import InputError
from gradsync.strategies.base import Strategy, without_gradient
from gradsync.strategies.gradients.unused import Unused

ONE_TENSOR = "data-parallel, without a GPU for each replica, splits and gathers one tensor"
MORE_PROCESSES = "HINT: --strategy ddp takes any inputs and outputs."


class DataParallel(Strategy):
    """1. Scatter: the batch is cut into one piece per replica.

    2. Replicate: every replica gets the parameters and buffers of the model.
    3. Parallel apply: forward of all pieces runs at the same time, as does backward.
    4. Gather: the outputs are concatenated; the gradients of all replicas are summed into the model's.

    With a GPU per replica this is ``torch.nn.DataParallel``. Otherwise the replicas are threads that share the memory
    of the parameters, so that replicating them costs nothing. The buffers are those of the first replica.
    Cost per step: no message between processes; on GPUs S bytes to and from each device except the first.
    """

    in_one_process = True

    def __init__(
        self, comm: Comm, *, buffers: Buffers | None = None, replicas: int = 1, unused: Unused = "refuse"
    ) -> None:
        super().__init__(comm, buffers=buffers)
        self._unused = unused
        if replicas < 1:
            raise InputError(f"replicas is {replicas}: data-parallel needs at least one.")
        self.replicas = replicas

    def attach(self, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        if self.comm.size > 1:
            raise InputError(
                f"data-parallel keeps its replicas in one process, but {self.comm.size} processes were started. "
                "HINT: start the script with plain python, and set replicas."
            )
        super().attach(model, optimizer)
        on_gpu = next(model.parameters()).is_cuda
        if on_gpu and torch.cuda.device_count() >= self.replicas:
            self.forward = nn.DataParallel(model, list(range(self.replicas)))
        elif self.replicas > 1:
            self.forward = threads = Replicas(model, self.replicas)
            self.on_detach(threads.close)
        return self.forward

    def agree(self) -> None:
        if isinstance(self.forward, Replicas):
            unused = self.forward.take_unused()
            for name, parameter in self._trainable:
                if self._unused == "refuse" and id(parameter) in unused:
                    raise without_gradient(name)

    def gradient_traffic(self, count: int) -> Traffic:
        return Traffic()


class Replicas(nn.Module):
    """Replicas of a model in threads of this process, or taking turns on one GPU. The first is the model itself."""

    def __init__(self, model: nn.Module, count: int) -> None:
        super().__init__()
        self._used: dict[int, set[int]] = {}
        """Of each replica that had a piece of the batch in this step, the parameters that it gave a gradient."""

        self._replicas = [model, *(copy.deepcopy(model) for _ in range(count - 1))]
        for replica in self._replicas[1:]:
            for own, shared in zip(replica.parameters(), model.parameters(), strict=True):
                own.data = shared.data
        # Replicas on one GPU take turns: autograd has one thread for the GPU, which also runs the hook below.
        self._at_once: Callable[..., Iterable[Any]] = map
        self._pool: ThreadPoolExecutor | None = None
        if not next(model.parameters()).is_cuda:
            threads = torch.get_num_threads()
            self._pool = ThreadPoolExecutor(count, "replica", initializer=lambda: torch.set_num_threads(threads))
            self._at_once = self._pool.map

    def close(self) -> None:
        """End the threads."""
        if self._pool:
            self._pool.shutdown(wait=False)

    def forward(self, *args: Any, **keywords: Any) -> Tensor:
        """Of one tensor: other structures are for torch's own ``DataParallel``, on GPUs."""
        if keywords or len(args) != 1 or not isinstance(args[0], Tensor):
            raise InputError(f"{ONE_TENSOR}, not {len(args)} inputs and {len(keywords)} keywords. {MORE_PROCESSES}")
        (inputs,) = args
        model, *others = self._replicas
        for replica in others:
            replica.train(model.training)
            for parameter, original in zip(replica.parameters(), model.parameters(), strict=True):
                parameter.requires_grad_(original.requires_grad)
            for own, shared in zip(replica.buffers(), model.buffers(), strict=True):
                own.copy_(shared)
        context = (torch.is_autocast_enabled(inputs.device.type), torch.get_autocast_dtype(inputs.device.type))

        def apply(replica: nn.Module, piece: Tensor) -> Tensor:
            # Autocast and grad mode are thread-local.
            autocast = torch.autocast(inputs.device.type, context[1], enabled=context[0])
            with autocast, torch.set_grad_enabled(training):
                return replica(piece)

        training = torch.is_grad_enabled()
        pieces = inputs.chunk(len(self._replicas))
        outputs = list(self._at_once(apply, self._replicas, pieces))
        if not all(isinstance(output, Tensor) for output in outputs):
            raise InputError(f"{ONE_TENSOR}: the model returns a {type(outputs[0]).__name__}. {MORE_PROCESSES}")
        gathered = torch.cat([output.detach() for output in outputs])
        if not training:
            return gathered
        gathered.requires_grad_()
        gathered.register_hook(lambda gradient: self._backward(outputs, gradient))
        return gathered

    def _backward(self, outputs: list[Tensor], gradient: Tensor) -> None:
        """Backward of all replicas at the same time; then their gradients are added to the model's, in order."""
        pieces = gradient.split([len(output) for output in outputs])
        list(self._at_once(torch.autograd.backward, outputs, pieces))
        for number in range(len(outputs)):
            self._used.setdefault(number, set())
        for parameters in zip(*(replica.parameters() for replica in self._replicas), strict=True):
            for number, parameter in enumerate(parameters):
                if parameter.grad is not None:
                    self._used[number].add(id(parameters[0]))
            sum_gradients(*parameters)

    def take_unused(self) -> set[int]:
        """The ids of parameters that some replica has not used in this step, though it had a piece of the batch."""
        used, self._used = self._used.values(), {}
        parameters = {id(parameter) for parameter in self._replicas[0].parameters()}
        return set().union(*(parameters - one for one in used))


def sum_gradients(shared: nn.Parameter, *others: nn.Parameter) -> None:
    """A replica that has not used the parameter has no gradient, which counts as zero."""
    for other in others:
        if other.grad is not None:
            if shared.grad is None:
                shared.grad = torch.zeros_like(shared)
            shared.grad.add_(other.grad)
            other.grad = None
