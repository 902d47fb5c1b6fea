"""A run in Weights & Biases: rank 0's series and those in which the other ranks differ, in one run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Before wandb is imported: nothing is reported over the network unless the user asks for it.
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")

import wandb

from gradsync.live.trackers.base import Point, Settings, Status, figures_of, flat, remarks_of
from gradsync.live.trackers.one_run import OneRun

PATIENCE_SECONDS = (
    25  # for an upload at the end: less than the launcher's own patience, so that it can say what is left
)
STEP = "step"
FAILED = 1  # its only other status is "crashed", which it finds out by itself


class WandbRun:
    """Settings are its config, events a table, the numbers of the summary its summary."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._settings = settings
        self._all_ranks = OneRun()
        self._events: list[tuple[int, str]] = []
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "gradsync"),
            name=os.environ.get("WANDB_NAME", folder.name),
            dir=os.environ.get("WANDB_DIR", str(folder)),
            config=flat(settings, "."),
            mode=mode(),
            settings=wandb.Settings(
                console="off",
                x_disable_stats=True,  # of this process; host/ is of the ranks
                finish_timeout=PATIENCE_SECONDS,
                finish_timeout_raises=True,
            ),
        )
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric(
            "*", step_metric=STEP
        )  # its own counter of steps refuses those of a rank that is behind

    def log(self, points: Sequence[Point]) -> None:
        for step, values in self._all_ranks.steps(points):
            self._run.log({**values, STEP: step})

    def event(self, step: int, text: str) -> None:
        self._events.append((step, text))
        rows = [list(event) for event in self._events]
        self._run.log({"events": wandb.Table(columns=["step", "event"], data=rows), STEP: step})

    def end(self, status: Status, summary: Mapping[str, Any]) -> None:
        self._run.summary.update({**remarks_of(status, summary), **figures_of(summary, self._settings)})
        self._run.finish(exit_code=0 if status == "completed" else FAILED)


def mode() -> Any:
    """As WANDB_MODE says; else online if the user is logged in, and offline otherwise. Never asks for a login."""
    if chosen := os.environ.get("WANDB_MODE"):
        return chosen
    return "online" if wandb.login(prompt=False) else "offline"
