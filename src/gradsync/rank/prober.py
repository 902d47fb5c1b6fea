"""One rank of the collective benchmark.

For each operation and size:
1. every rank calls it twice to warm up; the numbers that arrive the first time are checked;
2. rank 0 tells the others how many repetitions fit into the time budget, judging by the second call;
3. a barrier precedes each repetition, so that no rank is timed while it waits for one still busy with the previous;
4. each rank records how long each repetition took on that rank.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from gradsync.comm import Comm
from gradsync.config import Resolved
from gradsync.config.probe import NUMBER_BYTES, ProbeConfig, message_bytes
from gradsync.rank import world
from gradsync.rank.facts import end_facts, place_facts
from gradsync.rank.main import join, run_all
from gradsync.record import RankLog, read_config

LEAST_ITERATIONS = 3


class WrongNumbers(RuntimeError):
    """What arrived is not what the operation should give."""


class MessageTrial:
    """One operation on one message: ``whole`` is the message of S bytes, a row per rank, ``part`` one row of it.

    They are filled with numbers that identify the rank and the row they come from, both counted from 1.
    """

    def __init__(self, comm: Comm, bytes_in_all: int, device: torch.device) -> None:
        self.comm = comm
        numbers = bytes_in_all // NUMBER_BYTES
        self.numbers = torch.arange(1.0, comm.size + 1, device=device)[:, None]
        own = self.numbers[comm.rank]
        self.whole = (own * self.numbers).repeat(1, numbers // comm.size)
        self.part = -own.repeat(numbers // comm.size)
        self._meeting = torch.zeros(1, device=comm.carrier(device))
        self._on_gpu = device.type == "cuda"

    @property
    def rows(self) -> Tensor | None:
        """The whole message where only rank 0 has it."""
        return self.whole if self.comm.rank == 0 else None

    def broadcast(self) -> None:
        self.comm.broadcast(self.whole)

    def reduce(self) -> None:
        self.comm.reduce(self.whole)

    def gather(self) -> None:
        self.comm.gather(self.part, self.rows)

    def scatter(self) -> None:
        self.comm.scatter(self.part, None if self.rows is None else list(self.rows.unbind()))

    def all_reduce(self) -> None:
        self.comm.all_reduce(self.whole)

    def reduce_scatter(self) -> None:
        self.comm.reduce_scatter(self.whole, self.part)

    def all_gather(self) -> None:
        self.comm.all_gather(self.part, self.whole)

    def check(self, operation: str) -> None:
        """Check the result of the first call. Then fill in zeros, as sums of sums would overflow."""
        every_row, own_row = self.numbers, self.numbers[self.comm.rank]
        total = self.numbers.sum()
        arrived, expected = {
            "broadcast": (self.whole, every_row),
            "reduce": (self.rows, total * every_row),
            "gather": (self.rows, -every_row),
            "scatter": (self.part, own_row),
            "all-reduce": (self.whole, total * every_row),
            "reduce-scatter": (self.part, total * own_row),
            "all-gather": (self.whole, -every_row),
        }[operation]
        if arrived is not None and not bool((arrived == expected).all()):
            raise WrongNumbers(f"{operation} of {self.whole.nbytes} bytes gave wrong numbers.")
        self.whole.zero_()
        self.part.zero_()

    def timed(self, call: Callable[[], None]) -> float:
        begin = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - begin

    def meet(self) -> None:
        """A barrier: no rank leaves before all have arrived."""
        self.comm.all_reduce(self._meeting, "control")
        self.wait()

    def wait(self) -> None:
        """Wait for the GPU: a call returns before the GPU has finished it."""
        if self._on_gpu:
            torch.cuda.synchronize()


CALLS = {
    "broadcast": MessageTrial.broadcast,
    "reduce": MessageTrial.reduce,
    "gather": MessageTrial.gather,
    "scatter": MessageTrial.scatter,
    "all-reduce": MessageTrial.all_reduce,
    "reduce-scatter": MessageTrial.reduce_scatter,
    "all-gather": MessageTrial.all_gather,
}


def probe(config: Resolved, folder: Path, here: world.World, log: RankLog) -> None:
    torch.set_num_threads(config.threads)
    asked = read_config(folder)
    assert isinstance(asked, ProbeConfig)
    device = world.choose_device(config.device, here)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    comm = join(config, here, device)
    log.write("start", **place_facts(config, here, device))
    for operation in asked.operations:
        for size in asked.bytes_asked:
            trial = MessageTrial(comm, message_bytes(size, comm.size), device)
            seconds = time_one(trial, operation, asked.iterations, asked.seconds)
            log.write("point", operation=operation, size=size, bytes=trial.whole.nbytes, seconds=seconds)
    log.write("end", **end_facts())


def time_one(trial: MessageTrial, operation: str, most: int, budget: float) -> list[float]:
    """How long each repetition took on this rank; the warm-up is left out."""

    def call() -> None:
        CALLS[operation](trial)

    def call_and_meet() -> None:
        call()
        trial.meet()

    call()
    trial.check(operation)
    trial.meet()
    needed = trial.timed(call_and_meet)
    repetitions = torch.tensor([float(repetitions_within(budget, needed, most))])
    repetitions = repetitions.to(trial.comm.carrier(trial.whole.device))
    trial.comm.broadcast(repetitions, kind="control")
    seconds = []
    for _ in range(int(repetitions.item())):
        trial.meet()
        seconds.append(trial.timed(call))
    trial.meet()
    return seconds


def repetitions_within(budget: float, needed: float, most: int) -> int:
    return min(most, max(LEAST_ITERATIONS, int(budget / needed)))


def main(folders: Sequence[str]) -> NoReturn:
    run_all(probe, [Path(folder) for folder in folders])
