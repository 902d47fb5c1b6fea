"""The record of the user's own loop: the same run folder as that of ``gradsync train``, from the calls of the loop.

    after a step, until forward is called      data
    the call of the model, and the loss        forward
    from the gradient of the output on         backward
    agree                                      wait, wire and other, by the stamps of the collectives
    the optimizer's step                       optimizer

A call without gradients, as in a test, belongs to no step: the next step begins with the next training forward.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradsync.comm import Comm
from gradsync.comm.clock import ClockOffset, measure_offset, round_trip
from gradsync.config import Resolved
from gradsync.errors import InputError
from gradsync.library.exits import Exited, Stopped, cause_of, undisturbed
from gradsync.library.settings import precision_of
from gradsync.meter.host import HostSampler
from gradsync.meter.network import choose_counter
from gradsync.rank.facts import end_facts, error_facts, fingerprints, place_facts, strategy_facts
from gradsync.rank.world import World
from gradsync.record import RankLog, has_files, write_settings
from gradsync.strategies import Strategy

VISIBLE_SECONDS = 10  # in which a folder made on one node must be seen on another


class Recording:
    """This rank's part of it."""

    def __init__(self, folder: Path, here: World, strategy: Strategy, config: Resolved) -> None:
        self.folder, self._here, self._strategy = folder, here, strategy
        self._config = config
        self._comm = strategy.comm
        self._device = torch.device(config.device if config.device != "auto" else "cpu")
        self._log = RankLog(folder, here.rank)
        self._clock: ClockOffset = measure_offset(self._quiet, self._device)
        counted = self._comm.transport == "torch" and self._comm.size > 1
        self._counter = choose_counter(here.interface, here.local_size) if counted else None
        self._sampler = HostSampler(self._log, self._counter, self._device)
        self._steps = 0
        self._row: dict[str, Any] | None = None
        """Of the last step, until the next one begins: what is logged until then belongs to it."""

        self._logged: dict[str, Any] = {}
        self._samples: int | None = None
        self._in_step = self._tested = self._begun = self._ended = False
        self._comm.meter.begin()
        self._comm.meter.phase("data")

    @property
    def _quiet(self) -> Comm:
        return self._comm.unmetered()

    # --- a step ---

    @undisturbed
    def forward(self, inputs: Iterable[Any]) -> None:
        """The model is called for training."""
        count = samples_in(inputs)
        if not self._begun:
            self._config.precision = self._config.asked.precision = precision_of(self._strategy.model)
            self._begin(count)
        if not self._in_step:
            self._write_row()
            if self._tested:
                self._comm.meter.begin()
            self._in_step, self._tested, self._samples = True, False, None
        if count is not None:
            self._samples = (self._samples or 0) + count
        self._comm.meter.phase("forward")

    def backward_of(self, outputs: Any) -> None:
        """Note when backward reaches the outputs of the model."""
        for tensor in tensors_in(outputs):
            if tensor.requires_grad:
                tensor.register_hook(self._backward_begins)
                return

    def _backward_begins(self, _: Tensor) -> None:
        self._comm.meter.phase("backward")

    def test(self) -> None:
        """The model is called without gradients."""
        if not self._in_step:
            self._tested = True

    def log(self, values: Mapping[str, Any]) -> None:
        """Of the step in progress, or of the last one if the next has not begun."""
        target = self._logged if self._in_step or self._row is None else self._row
        found = read_values(values)
        if metrics := found.pop("metrics", None):
            target.setdefault("metrics", {}).update(metrics)
        target.update(found)

    @undisturbed
    def no_batch(self) -> None:
        """A step in which this rank takes part without a batch of its own."""
        self._write_row()
        self._in_step, self._samples = True, 0
        self._comm.meter.phase("agree")

    @undisturbed
    def step_ends(self) -> None:
        if not self._begun:
            self._begin()
        self._write_row()  # of a loop that does not call the model through us
        self._steps += 1
        if self._steps == 1:
            self._write_settings()
        facts: dict[str, Any] = {"step": self._steps, "epoch": 1}
        if self._samples is not None:
            facts["samples"] = self._samples
        self._row = {**facts, **self._logged, **self._comm.meter.end()}
        self._logged, self._in_step = {}, False
        self._comm.meter.phase("data")

    def _write_row(self) -> None:
        if self._row is not None:
            row, self._row = self._row, None
            self._log.write("step", **row)

    def _write_settings(self) -> None:
        """After the first step the size of a batch is known, all its micro-batches included."""
        self._config.batch_size = (self._samples or 1) * self._config.workers
        self._config.asked.batch_size = self._config.batch_size
        if self._here.rank == 0:
            write_settings(self.folder, self._config)

    def _begin(self, count: int | None = None) -> None:
        """Before the first step; ``count``: samples in its first micro-batch."""
        self._begun = True
        self._log.write(
            "start",
            **place_facts(self._config, self._here, self._device),
            ranks=self._comm.size,
            strategy=self._config.strategy,
            model=self._config.model,
            data=self._config.data,
            batch_size=(count or 1) * self._config.workers,
            **strategy_facts(self._strategy),
            role="worker",
            network_source=self._counter.source if self._counter else None,
        )
        self._log.write("clock", **asdict(self._clock))
        self._sampler.__enter__()

    # --- the end ---

    @undisturbed
    def close(self, error: BaseException | None = None) -> None:
        """Write how it ended. Without an error every rank calls this at the same point of the program."""
        if self._ended:
            return
        self._ended = True
        if not self._begun:
            self._begin()
        if not self._steps:
            self._write_settings()
        self._write_row()
        self._sampler.__exit__()
        if (cause := cause_of(error)) is not None:
            self._log.write("error", **error_facts(cause, (InputError, Stopped, Exited)))
        else:
            with suppress(RuntimeError):  # another rank has failed since
                self._log.write("round-trip", round_trip=round_trip(self._quiet, self._device))
                self._log.write("clock", **asdict(measure_offset(self._quiet, self._device)))
            self._log.write("end", **end_facts(), **fingerprints(self._strategy.model))
        self._log.close()


def samples_in(inputs: Iterable[Any]) -> int | None:
    """The length of the first tensor."""
    return next((len(tensor) for tensor in tensors_in(list(inputs)) if tensor.dim()), None)


def tensors_in(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif hasattr(value, "__dataclass_fields__"):
        yield from tensors_in(list(vars(value).values()))


def read_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """What ``sync.log`` was given, as it is written: loss and epoch under their own names, the rest as metrics."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        try:
            number = float(value.detach() if isinstance(value, Tensor) else value)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                f"sync.log({name}=...) must be a number, or a tensor with one: it is {value!r}."
            ) from None
        if name == "epoch":
            if number < 1 or number != int(number):
                raise InputError(f"sync.log(epoch={value}) must be a whole number from 1.")
            found["epoch"] = int(number)
        elif name == "loss":
            found["loss"] = number
        else:
            found.setdefault("metrics", {})[name] = number
    return found


def claim(folder: Path, comm: Comm, device: torch.device) -> None:
    """Make the folder of a recording on rank 0, or refuse it on every rank."""
    problem = refusal(folder) if comm.rank == 0 else ""
    refused = torch.tensor([float(bool(problem))], device=comm.carrier(device))
    comm.unmetered().broadcast(refused, kind="control")
    if refused.item():
        raise InputError(problem or f"rank 0 refuses to record into {folder}: it says why.")
    if not seen(folder):
        raise InputError(
            f"record={str(folder)!r} is not seen on the node of rank {comm.rank}: it must be in a folder that all "
            "nodes share."
        )


def refusal(folder: Path) -> str:
    """Make the folder; or why it cannot be one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = has_files(folder)
    except OSError as error:
        return f"cannot record into {folder}: {error.strerror or error}. Choose another folder with record=."
    if taken:
        return f"{folder} is not empty: a run is recorded into a folder of its own. Choose another with record=."
    return ""


def seen(folder: Path) -> bool:
    until = time.monotonic() + VISIBLE_SECONDS
    while not folder.is_dir():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
