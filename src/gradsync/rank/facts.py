"""What a rank writes into its record about itself: where it runs, what it runs, how it ended."""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn

from gradsync import models
from gradsync.comm import LostPeer, lifeline, mpi
from gradsync.config import Resolved
from gradsync.config.plugin import users_frames, users_traceback
from gradsync.config.resolved import available_cores
from gradsync.errors import plainly, ran_out
from gradsync.meter.host import cores
from gradsync.parent import start_ticks
from gradsync.rank import world
from gradsync.strategies import Strategy, wire_bytes
from gradsync.train import checkpoint


class Idle:
    """Since when this process has been idle: since it started, or since its previous run."""

    since = psutil.Process().create_time()


def place_facts(config: Resolved, here: world.World, device: torch.device) -> dict[str, Any]:
    """Where this rank runs, and among how many workers."""
    return {
        "rank": here.rank,
        "world_size": config.workers,
        "node": here.node,
        "address": world.address_towards(os.environ.get("MASTER_ADDR", "")),
        "kernel": here.kernel,
        "pid": os.getpid(),
        "start_ticks": start_ticks(os.getpid()),
        "began": Idle.since,
        "core_share": config.core_share,
        "cores": cores(),
        "device": str(device),
        "backend": world.choose_backend(here, device, config.transport),
        "threads": config.threads,
        "torch": torch.__version__,
        "host": host_facts(device),
    }


def host_facts(device: torch.device) -> dict[str, Any]:
    """The machine, for the report."""
    return {
        "processor": processor_name(),
        "cores": available_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


@cache
def processor_name() -> str:
    """The name of the processor, as the kernel calls it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def end_facts() -> dict[str, Any]:
    return {"time": time.time(), "cores": cores()}


def is_lost_peer(error: BaseException) -> bool:
    """Whether this rank failed only because another did: its error is not the cause."""
    if isinstance(error, (LostPeer, torch.distributed.DistError)) or mpi.raised(error):
        return True
    text = str(error).lower()
    return "gloo" in text or "nccl" in text


def error_facts(error: BaseException, expected: tuple[type[Exception], ...] = ()) -> dict[str, Any]:
    """Why it failed. The message of an expected error, and of one about the machine, says all."""
    our_own = users_frames(error.__traceback__) is None
    says_all = isinstance(error, expected) or (ran_out(error) and our_own)
    lost_peer = is_lost_peer(error)
    return {
        "type": type(error).__name__,
        "message": plainly(error),
        "traceback": "" if says_all else users_traceback(error),
        "lost_peer": lost_peer,
        "silent_peers": lifeline.silent_peers(str(error)) if lost_peer else [],
        "time": time.time(),
    }


def strategy_facts(sync: Strategy) -> dict[str, Any]:
    """Bytes per step in closed form, where there is one, and the messages before the first step."""
    traffic = wire_bytes(sync) if sync.comm.transport == "torch" else None
    return {
        "parameters": models.count_parameters(sync.model),
        "gradient_bytes": sum(item.nbytes for item in sync.model.parameters() if item.requires_grad),
        "buffers": sync.buffers,
        "wire_bytes": [traffic.sent, traffic.received] if traffic else None,
        "setup_payload": [[call.kind, call.sent, call.received] for call in sync.comm.meter.take_calls()],
    }


def fingerprints(model: nn.Module) -> dict[str, str]:
    """Two ranks hold the same bits when these are equal."""
    return {
        "parameters_sha256": checkpoint.fingerprint(model.parameters()),
        "buffers_sha256": checkpoint.fingerprint(model.buffers()),
    }
