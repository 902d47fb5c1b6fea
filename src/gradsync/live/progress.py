"""How far a run is, read from the ranks' rows as they are written: a bar on a terminal, lines in a pipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from gradsync.config.probe import ProbeConfig
from gradsync.config.values import counted
from gradsync.ledger.rates import samples_per_second
from gradsync.ledger.stamps import Step
from gradsync.ledger.stragglers import RECENT, sentence, straggler
from gradsync.ledger.timeline import Timeline
from gradsync.live.bars import Bars, bars_of_steps
from gradsync.live.follow import Listener, following
from gradsync.live.trackers.running import Trackers
from gradsync.record import Row, Run, read_run
from gradsync.record.rows import StartRow, StepRow
from gradsync.text import size_text

RECENT_STEPS = 10


class Pace:
    """Speed over the last few steps, and the time left at that speed."""

    def __init__(self, start: StartRow) -> None:
        self.start = start
        self._rows: deque[StepRow] = deque(maxlen=RECENT_STEPS)

    def add(self, row: StepRow) -> None:
        self._rows.append(row)

    @property
    def seconds_per_step(self) -> float:
        return sum(row["seconds"] for row in self._rows) / len(self._rows)

    @property
    def samples_per_second(self) -> float:
        """Throughput of all ranks, as if each were like rank 0: the shares of a step differ by one sample at most."""
        return samples_per_second([self._rows] * self.start.get("ranks", self.start["world_size"])) or 0.0

    def seconds_left(self, step: int) -> float:
        return (self.start["steps"] - step) * self.seconds_per_step


def loss_text(row: StepRow) -> str:
    return "NaN or infinite" if row["loss"] is None else f"{row['loss']:.4f}"


def headline(start: StartRow, place: str = "") -> str:
    """What the run will do, in derived quantities."""
    workers, share = start["world_size"], start["batch_size"] // start["world_size"]
    each = f"{counted(workers, 'worker')}{' ×' if workers > 1 else ','} {share} samples"
    return (
        f"{place}{start['strategy']}: {start['model']} on {start['data']}, {start['parameters']:,} parameters "
        f"({size_text(start['gradient_bytes'])} of gradients a step), {each} a step, {start['steps']} steps, "
        f"{counted(start['threads'], 'thread')} each on {start['device']}"
    )


def step_line(pace: Pace, row: StepRow) -> str:
    return (
        f"{pace.start['strategy']}: epoch {row['epoch']}, step {row['step']}/{pace.start['steps']}, "
        f"loss {loss_text(row)}, {pace.samples_per_second:,.0f} samples/s, "
        f"{pace.seconds_per_step:.3f} s/step, {pace.seconds_left(row['step']):.0f} s left"
    )


class Lateness:
    """Whether one rank keeps the others waiting, over the last steps."""

    def __init__(self) -> None:
        self._timeline = Timeline()
        self._steps: deque[list[Step]] = deque(maxlen=RECENT)

    def add(self, rank: int, row: Row) -> None:
        if step := self._timeline.add(rank, row):
            self._steps.append(step)

    def text(self) -> str:
        found = straggler(self._steps) if len(self._steps) == RECENT else None
        return sentence(found) if found else ""


class Display(ABC):
    """A listener that shows the pace of rank 0, and which rank is late."""

    def __init__(self, console: Console, place: str = "") -> None:
        self._console = console
        self._place = place
        self._pace: Pace | None = None
        self._lateness = Lateness()

    def show(self, rank: int, row: Row) -> None:
        self._lateness.add(rank, row)
        if rank:
            return
        if row["kind"] == "start":
            self._pace = Pace(row)
            self._begin(row)
        elif row["kind"] == "step" and self._pace:
            self._pace.add(row)
            self._step(row, self._pace)

    @abstractmethod
    def _begin(self, start: StartRow) -> None: ...

    @abstractmethod
    def _step(self, row: StepRow, pace: Pace) -> None: ...

    @abstractmethod
    def refresh(self) -> None: ...


class Lines(Display):
    """One plain line every ``log_every`` steps."""

    def __init__(self, console: Console, log_every: int, place: str = "") -> None:
        super().__init__(console, place)
        self._every = log_every
        self._due: list[str] = []

    def _begin(self, start: StartRow) -> None:
        self._due.append(headline(start, self._place))

    def _step(self, row: StepRow, pace: Pace) -> None:
        if row["step"] % self._every == 0:
            self._due.append(step_line(pace, row))

    def refresh(self) -> None:
        """Print what is due, now that the rows of all ranks have been read."""
        due, self._due = self._due, []
        for line in due:
            late = self._lateness.text() if line is due[-1] else ""
            self._console.print("; ".join(filter(None, [line, late])), markup=False, soft_wrap=True)
        self._console.file.flush()


class Bar(Display):
    """A bar with step, loss, samples per second and time left, and with the rank that is late."""

    def __init__(self, console: Console, progress: Bars, place: str = "") -> None:
        super().__init__(console, place)
        self._progress = progress
        self._task = progress.add_task("", total=None, facts=["starting"])
        self._row: StepRow | None = None

    def _begin(self, start: StartRow) -> None:
        self._console.print(headline(start, self._place), markup=False)
        self._progress.update(self._task, total=start["steps"], facts=[start["strategy"]])

    def _step(self, row: StepRow, pace: Pace) -> None:
        self._row = row

    def refresh(self) -> None:
        if not (self._row and self._pace):
            return
        start, step = self._pace.start, self._row["step"]
        doing = "testing" if step == start["steps"] else start["strategy"]
        pace = [f"loss {loss_text(self._row)}", f"{self._pace.samples_per_second:,.0f} samples/s"]
        facts = filter(None, [doing, *pace, self._lateness.text()])
        self._progress.update(self._task, completed=step, facts=list(facts))


class WatchRun:
    """Enter it, then call it with a run folder while its ranks are running. Its trackers are told of the end of a run
    when the next one begins, or on leaving it: the summary must be written by then."""

    def __init__(self, console: Console, log_every: int, begun: int = 0, runs: int = 1) -> None:
        """``runs``: how many a comparison has in all; ``begun``: how many of these are finished already."""
        self._console = console
        self._log_every = log_every
        self._begun = begun
        self._runs = runs
        self._trackers = Trackers()

    def __enter__(self) -> WatchRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._trackers.end()

    @contextmanager
    def __call__(self, folder: Path) -> Iterator[None]:
        self._begun += 1
        place = f"run {self._begun} of {self._runs}: " if self._runs > 1 else ""
        self._trackers.begin(folder, trackers_of(folder))
        with ExitStack() as stack:
            listeners: list[Listener] = []
            if self._console.is_terminal:
                progress = bars_of_steps(self._console)
                listeners.append(Bar(self._console, stack.enter_context(progress), place))
            else:
                listeners.append(Lines(self._console, self._log_every, place))
            with following([folder], listeners):
                yield


def trackers_of(folder: Path) -> tuple[str, ...]:
    run = read_run(folder)
    return run.asked.trackers if isinstance(run, Run) else ()


class WatchPoints:
    """Call with the folder of one transport of a collective benchmark: shows what it times, and how much is done."""

    def __init__(self, console: Console, config: ProbeConfig) -> None:
        self._console = console
        self._points = len(config.operations) * len(config.bytes_asked)
        self._sizes = len(config.bytes_asked)

    @contextmanager
    def __call__(self, folder: Path) -> Iterator[None]:
        self._done = 0
        self._transport = ""
        self._progress = bars_of_steps(self._console)
        self._task = self._progress.add_task("", total=self._points, facts=["starting"])
        with ExitStack() as stack:
            if self._console.is_terminal:
                stack.enter_context(self._progress)
            stack.enter_context(following([folder], [self]))
            yield

    def show(self, rank: int, row: Row) -> None:
        if rank:
            return
        if row["kind"] == "start":
            self._transport = row["backend"] or ""
        elif row["kind"] == "point":
            self._done += 1
            name = f"{self._transport}: {row['operation']}"
            self._progress.update(self._task, facts=[name], completed=self._done)
            if not self._console.is_terminal and self._done % self._sizes == 0:
                self._console.print(f"{name}, {self._done} of {self._points} points done", markup=False)
                self._console.file.flush()

    def refresh(self) -> None:
        pass
