"""One display over all runs of a study: which one is running, how much is done, and about how long is left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from gradsync.config.resolved import available_cores
from gradsync.config.values import counted
from gradsync.figures.differences import said, settings, varied
from gradsync.live.bars import bars_of_work
from gradsync.live.follow import following
from gradsync.live.progress import trackers_of
from gradsync.live.trackers.running import Trackers
from gradsync.record import Row, read_run
from gradsync.record.rows import StartRow

SAMPLES = 50_000  # of a training set whose size is not known before it is read
START = 8.0  # seconds until the processes of a run begin to train
STEP = 0.002  # seconds a step takes in addition to its samples

# Core-seconds per sample: what makes runs of a study differ most. Only their ratios matter.
CORE_SECONDS = {"logistic": 2e-5, "mnist-cnn": 1e-3, "vgg11": 0.01, "resnet18": 0.033, "alexnet": 0.04}


def work(config: dict[str, Any]) -> float:
    """About how many seconds a run takes: enough to guess the time that is left."""
    workers = config["workers"] or 1
    batch = config["batch_size"] or (config["batch_per_worker"] or 64) * workers
    epoch = -(-(config["train_samples"] or SAMPLES) // batch)
    steps = config["steps"] or (config["epochs"] or 1) * epoch
    shares = (config["nodes"] or 1) * config["cpus"] if config["cpus"] else available_cores()
    cost = CORE_SECONDS.get(config["model"], CORE_SECONDS["vgg11"])
    return START + steps * (STEP + batch * cost / min(shares, available_cores()))


SAID_ANYWAY = ("strategy", "workers", "batch_size", "batch_per_worker", "out")


class WatchStudy:
    """Enter it, then call it with the folders of runs that are made in turn."""

    def __init__(self, console: Console, plan: Sequence[dict[str, Any]], runs: int) -> None:
        """``plan``: the runs that are still to be made; ``runs``: how many the study has in all."""
        self._console = console
        self._work = sum(map(work, plan)) or 1.0
        self._done = 0.0
        self._runs = runs
        self._begun = runs - len(plan)
        self._varied = [name for name in varied(plan) if name not in SAID_ANYWAY]
        self._progress = bars_of_work(console)
        self._task = self._progress.add_task("", total=self._work, facts=["starting"])
        self._names: list[str] = []  # of the current run, what differs first
        self._folders: list[Path] = []
        self._own = 0.0  # of the current run
        self._whole = 0.0
        self._steps = 0
        self._begin = time.monotonic()
        self._trackers = Trackers()

    def __enter__(self) -> WatchStudy:
        self._begin = time.monotonic()
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:  # it would print an empty line in a pipe
            self._progress.stop()
        self._trackers.end()

    @contextmanager
    def __call__(self, *folders: Path) -> Iterator[None]:
        self._folders = list(folders)
        with following(folders, [self]):
            yield
        self._finish_run()

    def show(self, rank: int, row: Row) -> None:
        if rank:
            return
        if row["kind"] == "start":
            self._begin_run(row)
        elif row["kind"] == "step" and self._steps:
            share = START / self._whole if self._whole else 0.0
            self._own = self._whole * (share + (1 - share) * row["step"] / self._steps)
            self._draw(f"step {row['step']}/{self._steps}")

    def refresh(self) -> None:
        pass

    def _begin_run(self, row: StartRow) -> None:
        self._finish_run()
        self._begun += 1
        self._steps = row["steps"]
        folder = self._folders.pop(0) if self._folders else None
        if folder:
            self._trackers.begin(folder, trackers_of(folder))
        config = read_run(folder).config if folder else {}
        self._whole = work(config) if config else 0.0
        asked = settings(config)
        first, *rest = [
            *filter(None, (said(name, asked.get(name)) for name in self._varied)),
            *(row["strategy"], counted(row["world_size"], "worker"), f"batch {row['batch_size']:,}"),
        ]
        self._names = [f"run {self._begun} of {self._runs}: {first}", *rest]
        self._say("; ".join(filter(None, [", ".join(self._names), self._left()])))
        self._draw()

    def _finish_run(self) -> None:
        self._done += self._whole
        self._own, self._whole = 0.0, 0.0

    def _draw(self, step: str = "") -> None:
        facts = filter(None, [*self._names, step, self._left()])
        self._progress.update(self._task, completed=self._done + self._own, facts=list(facts))

    def _left(self) -> str:
        done = self._done + self._own
        if done <= START:
            return ""
        return f"about {duration((time.monotonic() - self._begin) * (self._work - done) / done)} left"

    def _say(self, text: str) -> None:
        if not self._console.is_terminal:
            self._console.print(text, markup=False, soft_wrap=True)
            self._console.file.flush()


def duration(seconds: float) -> str:
    return (
        f"{max(0.0, seconds):.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
