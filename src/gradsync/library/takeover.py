"""What a rank that has missed updates takes over from one that has made them: all that the next step depends on."""

from __future__ import annotations

import gc
import io
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from gradsync.comm import Comm

PIECE_BYTES = 2**30  # MPI counts the bytes of a message in 31 bits


@torch.no_grad()
def take_over(
    model: nn.Module, optimizer: Optimizer, scaler: GradScaler | None, *, source: int, behind: bool, comm: Comm
) -> None:
    """Parameters, buffers, the optimizer's state and learning rates, its schedulers, and the state of the GradScaler.

    Every rank calls it; those that are ``behind`` get what ``source`` has.
    """
    schedulers = schedulers_of(optimizer)
    packed = b""
    if comm.rank == source:
        state = {
            "tensors": tensors_of(model),
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict() if scaler else None,
        }
        try:
            packed = pickled(state | {"schedulers": [item.state_dict() for item in schedulers]})
            unpickled(packed)
        except Exception:  # of a function or an object of the user's in a scheduler, for instance
            packed = pickled(state)
    packed = broadcast(packed, source, comm)
    if not behind:
        return
    found = unpickled(packed)
    for own, theirs in zip(tensors_of(model), found["tensors"], strict=True):
        own.copy_(theirs)
    optimizer.load_state_dict(found["optimizer"])
    states = found.get("schedulers", [])
    if len(states) == len(schedulers):  # otherwise the learning rates of the next step are compared, and refused
        for scheduler, state in zip(schedulers, states, strict=True):
            scheduler.load_state_dict(state)
    if found["scaler"] and (scaler := scaler or only_scaler()):
        scaler.load_state_dict(found["scaler"])


def tensors_of(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def pickled(state: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def unpickled(packed: bytes) -> dict[str, Any]:
    """Tensors and plain values only: what another process has sent runs no code here."""
    return torch.load(io.BytesIO(packed), map_location="cpu", weights_only=True)


def broadcast(packed: bytes, source: int, comm: Comm) -> bytes:
    length = torch.tensor([len(packed)])
    comm.broadcast(length, source, kind="control")
    block = torch.frombuffer(bytearray(packed or int(length.item())), dtype=torch.uint8)
    for piece in block.split(PIECE_BYTES):
        comm.broadcast(piece, source, kind="parameters")
    return block.numpy().tobytes()


def schedulers_of(optimizer: Optimizer) -> list[LRScheduler]:
    """Torch keeps no list of them. Those inside another, as in SequentialLR, are part of its state."""
    if not any("initial_lr" in group for group in optimizer.param_groups):  # where each of them has left it
        return []
    found = outermost(optimizer)
    if len(found) > 1:
        gc.collect()  # which of them are garbage differs between ranks
        found = outermost(optimizer)
    return sorted(found, key=lambda item: type(item).__name__)


def outermost(optimizer: Optimizer) -> list[LRScheduler]:
    found = [item for item in living(LRScheduler) if getattr(item, "optimizer", None) is optimizer]
    inner = {id(part) for item in found for part in getattr(item, "_schedulers", ())}
    return [item for item in found if id(item) not in inner]


def only_scaler() -> GradScaler | None:
    """That of a rank which has made no step with it yet."""
    found = living(GradScaler)
    return found[0] if len(found) == 1 else None


def living(kind: type[Any]) -> list[Any]:
    return [item for item in gc.get_objects() if issubclass(type(item), kind)]  # isinstance would ask proxies
