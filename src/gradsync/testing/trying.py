"""A strategy in training loops as users write them, in the processes of a run: how far each is from one process.

A rank finds this by reference (rank/conformance.py), as it finds a user's code: it attaches as a user's script does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from gradsync.comm import Comm
from gradsync.config import Buffers
from gradsync.library.attach import attach
from gradsync.rank.conformance import distance
from gradsync.strategies import find_strategy, takes_replicas
from gradsync.testing.ways import WAYS, LeftOut, Script, Way, alone

PATIENCE = 10.0  # seconds for the others to raise an error, too


def tried(
    strategy: str,
    *,
    buffers: Buffers | None,
    options: Mapping[str, Any],
    workers: int,
    comm: Comm,
    device: torch.device,
    dtype: torch.dtype,
) -> list[dict[str, Any]]:
    """What each way has come to on this rank, in the order of ``WAYS``; the first only, if that is an error."""
    replicas = workers if takes_replicas(find_strategy(strategy)) else 1
    attaching = partial(attach, strategy=strategy, buffers=buffers, replicas=replicas, **options)
    there, here = (Script(each, workers, device, dtype) for each in (attaching, alone))
    found: list[dict[str, Any]] = []
    for name, way in WAYS.items():
        if not (found and found[0]["error"]):
            found.append({"name": name, **outcome(name, way, there, here, comm)})
    return found


def outcome(name: str, way: Way, there: Script, here: Script, comm: Comm) -> dict[str, Any]:
    """An error that every rank raises ends only this way; one that the others do not raise ends the run."""
    found: dict[str, Any] = {"distance": None, "error": "", "left_out": ""}
    try:
        own = way(there)
    except LeftOut as reason:
        return {**found, "left_out": str(reason)}
    except Exception as error:
        if not all_are_here(comm, there.device, PATIENCE):
            raise RuntimeError(f'on this rank alone, the training loop "{name}" {said(error)}') from error
        return {**found, "error": said(error)}
    return {**found, "distance": max(map(distance, own, way(here)))}


def said(error: Exception) -> str:
    first, *_ = [*str(error).splitlines(), ""]
    return f"raised {type(error).__name__}: {first}"


def all_are_here(comm: Comm, device: torch.device, patience: float) -> bool:
    """Whether the others say so, too: those that have not raised an error are waiting for another message."""
    if comm.size == 1:
        return True
    count = torch.ones(1, device=comm.carrier(device))
    answer = comm.all_reduce_later(count, kind="control")
    until = time.monotonic() + patience
    while not answer.done() and time.monotonic() < until:
        time.sleep(0.01)
    return answer.done() and answer.wait().item() == comm.size
