"""The record of a watched process: rows as those of any rank, in a folder that becomes a run with the first step.

Nothing is written before an optimizer has made a step: an agent of torchrun, a loader of data or a helper that uses
torch leaves no trace. No message is added to those of the script; between hosts, clocks are compared over the store
through which its ranks have met.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
import torch.distributed as dist
from torch import nn

from gradsync import models
from gradsync.errors import InputError
from gradsync.library.exits import Exited, Stopped, cause_of, undisturbed
from gradsync.library.recording import samples_in
from gradsync.library.settings import bare, precision_of
from gradsync.meter.host import HostSampler
from gradsync.meter.network import choose_counter
from gradsync.meter.recorder import Recorder
from gradsync.observe.clocks import compare_clocks
from gradsync.observe.seen import settings_of, strategy_of
from gradsync.rank.facts import end_facts, error_facts, fingerprints, place_facts
from gradsync.rank.world import World, discover
from gradsync.record import CONFIG_FILE, RankLog, rank_file, write_settings

if TYPE_CHECKING:
    from gradsync.observe.watcher import Watcher

Place = Callable[[World], Path]
"""The folder of the run, asked for with the first step."""

MOST_HASHED = 2 << 30
"""Bytes of parameters: the hash of more would hold up the end of the script."""


class Recording:
    """Of one process, from its first training forward on."""

    def __init__(
        self, watcher: Watcher, model: nn.Module, device: torch.device, meter: Recorder, place: Place
    ) -> None:
        self.steps = 0
        self.here = seen_world()
        self.folder: Path | None = None
        self._watcher, self._meter, self._place, self._device = watcher, meter, place, device
        self._model, self._inner = ref(model), ref(bare(model))
        self._precision = precision_of(model)
        self._hashed: dict[str, str] = {}
        self.cause: BaseException | None = None
        """What has ended the script, if anything."""

        self._pid = os.getpid()
        self._log = LaterLog()
        counter = choose_counter(self.here.interface, self.here.local_size) if self.here.size > 1 else None
        self._source = counter.source if counter else None
        self._sampler = HostSampler(self._log, counter, device, forget_peaks=False)
        self._sampler.__enter__()

    @property
    def is_open(self) -> bool:
        """Not in a process that was forked from the one that trains, such as a loader."""
        return self.folder is not None and os.getpid() == self._pid

    def samples(self, model: nn.Module, inputs: list[Any]) -> int:
        """Of several models, the first one called sees every sample."""
        return (samples_in(inputs) or 0) if self._model() is model else 0

    @undisturbed
    def step(self, row: dict[str, Any], optimizer: Any) -> None:
        self.steps += 1
        if self.folder is None:
            self._open(row, optimizer)
        self._log.write("step", step=self.steps, **row)

    def group_ends(self) -> None:
        """The last moment at which sockets are open, and often at which the script still has its model."""
        self._sampler.sample()
        self._hashed = self._hashes()

    def _open(self, row: dict[str, Any], optimizer: Any) -> None:
        here, model = self.here, self._model()
        assert model is not None
        folder = self._place(here)
        strategy = strategy_of(model, row["collectives"], here.size)
        batch = row.get("samples", 1)
        config = settings_of(model, optimizer, strategy, batch, self._precision, here.size, folder)
        claim(folder, here.rank)
        if not (folder / CONFIG_FILE).exists():
            write_settings(folder, config)
        traffic = self._watcher.traffic
        inner = bare(model)
        facts = {
            **place_facts(config, here, self._device),
            "backend": dist.get_backend() if dist.is_available() and dist.is_initialized() else None,
            "ranks": here.size,
            "strategy": strategy,
            "model": config.model,
            "data": config.data,
            "batch_size": config.batch_size,
            "parameters": models.count_parameters(inner),
            "gradient_bytes": sum(item.nbytes for item in inner.parameters() if item.requires_grad),
            "wire_bytes": [traffic.sent, traffic.received] if here.size > 1 else None,
            "setup_payload": [[kind, *total] for kind, total in self._watcher.before.items()],
            "role": "worker",
            "network_source": self._source,
            "remarks": list(self._watcher.remarks),
        }
        self._log.open(folder, here.rank, facts)
        self.folder = folder
        compare_clocks(here, self._log)

    def close(self, error: BaseException | None = None) -> None:
        if os.getpid() != self._pid:  # a process that was forked from the one that trains, such as a loader
            return
        self._sampler.__exit__()
        if self.folder is None:
            return
        self.cause = cause_of(error)
        if self.cause is not None:
            self._log.write("error", **error_facts(self.cause, (InputError, Stopped, Exited)))
        else:
            self._log.write("end", **end_facts(), **(self._hashes() or self._hashed), remarks=self._watcher.remarks)
        self._log.close()

    def _hashes(self) -> dict[str, str]:
        """Of the model, if the script still has it."""
        model = self._inner()
        if model is None or sum(item.nbytes for item in model.parameters()) > MOST_HASHED:
            return {}
        return fingerprints(model)


class LaterLog(RankLog):
    """Keeps rows in memory until it is opened."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, dict[str, Any]]] | None = []

    def write(self, kind: str, **values: Any) -> None:
        if self._kept is not None:
            self._kept.append((kind, values))
        else:
            super().write(kind, **values)

    def open(self, folder: Path, rank: int, start: dict[str, Any]) -> None:
        """Write the start row, and then what was kept."""
        super().__init__(folder, rank)
        kept, self._kept = self._kept or [], None
        self.write("start", **start)
        for kind, values in kept:
            self.write(kind, **values)

    def close(self) -> None:
        if self._kept is None:
            super().close()


def seen_world() -> World:
    """Rank and size as the script has given them to torch; what else its launcher has told."""
    try:
        told = discover()
    except InputError:  # half of a launcher's variables
        told = World()
    if not (dist.is_available() and dist.is_initialized()):
        return told
    rank, size = dist.get_rank(), dist.get_world_size()
    return told if (told.rank, told.size) == (rank, size) else World(rank, size)


def claim(folder: Path, rank: int) -> None:
    """Two processes never write one file."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        rank_file(folder, rank).touch(exist_ok=False)
    except FileExistsError:
        raise InputError(
            f"rank {rank} of {folder} is recorded by another process already: one run has one process for every rank"
        ) from None
