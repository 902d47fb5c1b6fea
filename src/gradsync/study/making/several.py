"""Studies whose runs share training settings, and differ in some of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from gradsync.config import RunConfig, Settings, Transport, as_text
from gradsync.config.values import at_least
from gradsync.errors import InputError
from gradsync.study.making.base import Study

MOST_RUNS = 10_000  # of one command: at three seconds each, more than a night


def refuse_too_many_runs(count: int) -> None:
    """Refuse them before a list of them is made."""
    if count > MOST_RUNS:
        raise InputError(f"that is up to {count:,} runs: one command makes at most {MOST_RUNS:,}. Vary fewer values.")


@dataclass(kw_only=True)
class SettingsStudy(Study, Settings):
    """A study with training settings that all its runs share.

    Settings that do not apply to the strategy of a run are left out of that run by ``config.resolved.suited``.
    """

    strategies: tuple[str, ...] = ()
    """The synchronization strategies, in this order. Default: local for one worker, else ddp."""

    workers: tuple[int, ...] = ()
    """How many workers share each batch, except with local: one number, or several, for instance 1,2,4.
    Default: --workers-per-node on every node, else 2."""

    servers: int | None = None
    """Parameter servers, for the strategies that have them. Default: 1."""

    transport: Transport = "auto"
    """What carries the messages, except with local: auto, gloo, nccl or mpi."""

    options: dict[str, str] = field(default_factory=dict)
    """Strategy options, one flag each; given to the strategies that have them."""

    default_epochs: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if isinstance(self.workers, int):
            self.workers = (self.workers,)
        super().__post_init__()
        at_least(self, "servers", 1)
        self.options = as_text(self.options)
        refuse_too_many_runs(self.runs_at_most)

    @property
    def runs_at_most(self) -> int:
        """The number of combinations of all listed values, before any run is planned."""
        shared = {item.name for item in fields(Settings)}
        values = [getattr(self, item.name) for item in fields(self) if item.name not in shared]
        return self.repeat * math.prod(len(value) for value in values if isinstance(value, tuple) and value)

    @property
    def ways(self) -> tuple[str | None, ...]:
        return self.strategies or (None,)

    @property
    def numbers(self) -> tuple[int | None, ...]:
        """Numbers of workers; None: the default."""
        return self.workers or (None,)

    def run(self, strategy: str | None = None, workers: int | None = None, **changes: Any) -> RunConfig:
        """The shared settings with these changes. A batch size or a number of epochs replaces its alternative."""
        shared: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(Settings)}
        for one, other in (("batch_size", "batch_per_worker"), ("epochs", "steps")):
            if one in changes:
                shared[other] = None
            if other in changes:
                shared[one] = None
        if not {shared["epochs"], shared["steps"], changes.get("epochs"), changes.get("steps")} - {None}:
            shared["epochs"] = self.default_epochs
        beside = {"servers": self.servers, "transport": self.transport, "options": self.options}
        return RunConfig(**{**shared, **beside, "strategy": strategy, "workers": workers, **changes})
