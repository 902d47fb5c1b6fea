"""How far a run is, read from rank 0's rows as they are written: a bar on a terminal, lines in a pipe."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from gradsync.record import Row, rank_file

POLL_SECONDS = 0.25  # often enough for the eye, rare enough not to be felt by the training
RECENT_STEPS = 10


class Follower:
    """The rows that have come since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new_rows(self) -> list[Row]:
        if not self._path.exists():
            return []
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


class Pace:
    """Speed over the last few steps, and what that means for the rest."""

    def __init__(self, start: Row) -> None:
        self.start = start
        self._rows: deque[Row] = deque(maxlen=RECENT_STEPS)

    def add(self, row: Row) -> None:
        self._rows.append(row)

    @property
    def seconds_per_step(self) -> float:
        return sum(row["seconds"] for row in self._rows) / len(self._rows)

    @property
    def samples_per_second(self) -> float:
        """Of all ranks, as rank 0 sees it: the shares of a step differ by one sample at most."""
        samples = sum(row["samples"] for row in self._rows) / len(self._rows)
        return samples * self.start["world_size"] / self.seconds_per_step

    def seconds_left(self, step: int) -> float:
        return (self.start["steps"] - step) * self.seconds_per_step


def loss_text(row: Row) -> str:
    return "not a number" if row["loss"] is None else f"{row['loss']:.4f}"


def size_text(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def headline(start: Row) -> str:
    """What is about to happen, in derived quantities."""
    workers, share = start["world_size"], start["batch_size"] // start["world_size"]
    each = f"{workers} workers × {share} samples" if workers > 1 else f"1 worker, {share} samples"
    return (
        f"{start['strategy']}: {start['model']} on {start['data']}, {start['parameters']:,} parameters "
        f"({size_text(start['gradient_bytes'])} of gradients a step), {each} a step, {start['steps']} steps, "
        f"{start['threads']} thread{'s' * (start['threads'] > 1)} each on {start['device']}"
    )


def step_line(pace: Pace, row: Row) -> str:
    return (
        f"{pace.start['strategy']}: epoch {row['epoch']}, step {row['step']}/{pace.start['steps']}, "
        f"loss {loss_text(row)}, {pace.samples_per_second:,.0f} samples/s, "
        f"{pace.seconds_per_step:.3f} s/step, {pace.seconds_left(row['step']):.0f} s left"
    )


class Lines:
    """One plain line every ``log_every`` steps."""

    def __init__(self, console: Console, log_every: int) -> None:
        self._console = console
        self._every = log_every
        self._pace: Pace | None = None

    def show(self, row: Row) -> None:
        if row["kind"] == "start":
            self._pace = Pace(row)
            self._print(headline(row))
        elif row["kind"] == "step" and self._pace:
            self._pace.add(row)
            if row["step"] % self._every == 0:
                self._print(step_line(self._pace, row))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)
        self._console.file.flush()


class Bar:
    """A bar with step, loss, samples per second and time left."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._task = progress.add_task("starting", total=None, facts="")
        self._pace: Pace | None = None

    def show(self, row: Row) -> None:
        if row["kind"] == "start":
            self._pace = Pace(row)
            self._console.print(headline(row), markup=False)
            self._progress.update(self._task, description=row["strategy"], total=row["steps"])
        elif row["kind"] == "step" and self._pace:
            self._pace.add(row)
            facts = f"loss {loss_text(row)}  {self._pace.samples_per_second:,.0f} samples/s"
            self._progress.update(self._task, completed=row["step"], facts=facts)
            if row["step"] == self._pace.start["steps"]:
                self._progress.update(self._task, description="testing")


class Watch:
    """Call with a run folder while its ranks are at work."""

    def __init__(self, console: Console, log_every: int) -> None:
        self._console = console
        self._log_every = log_every

    @contextmanager
    def __call__(self, folder: Path) -> Iterator[None]:
        if not self._console.is_terminal:
            with following(folder, Lines(self._console, self._log_every)):
                yield
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(),
        )
        with (
            Progress(*columns, console=self._console, transient=True, refresh_per_second=4) as progress,
            following(folder, Bar(self._console, progress)),
        ):
            yield


@contextmanager
def following(folder: Path, display: Lines | Bar) -> Iterator[None]:
    """A thread that hands rank 0's new rows to the display until the block ends, then the last ones."""
    follower = Follower(rank_file(folder, 0))
    ended = threading.Event()

    def follow() -> None:
        while True:
            last = ended.wait(POLL_SECONDS)
            with suppress(OSError):  # the reader of a pipe may have gone; the run goes on
                for row in follower.new_rows():
                    display.show(row)
            if last:
                return

    thread = threading.Thread(target=follow, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
