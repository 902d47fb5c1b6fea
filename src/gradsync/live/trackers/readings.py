"""From the rows of a run to what trackers log: written once, for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gradsync.ledger.parts import ledgers
from gradsync.ledger.rates import SHORTEST, rate, samples_per_second
from gradsync.ledger.stamps import Step
from gradsync.ledger.stragglers import FEWEST, RECENT, delays_caused, sentence, straggler
from gradsync.ledger.summary.learned import combined, metrics_of_step
from gradsync.ledger.timeline import Timeline
from gradsync.live.trackers.base import Point, Scalars
from gradsync.record import Row
from gradsync.record.rows import HostRow, StepRow, TestRow


class Readings:
    """Takes rows as they come; ``points`` and ``events`` hold what they have come to since the last ``take``."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.events: list[tuple[int, str]] = []
        self._timeline = Timeline()
        self._host: dict[int, HostRow] = {}
        self._step: dict[int, StepRow] = {}
        self._shares: dict[int, list[TestRow]] = defaultdict(list)
        self._late = Late()

    def take(self) -> tuple[list[Point], list[tuple[int, str]]]:
        taken = self.points, self.events
        self.points, self.events = [], []
        return taken

    def add(self, rank: int, row: Row) -> None:
        whole = self._timeline.add(rank, row)
        if row["kind"] == "step":
            self._step[rank] = row
            self._log(rank, row["step"], step_scalars(row, self._timeline.ranks or 1 if rank == 0 else None))
            if whole:
                self._add_whole(row["step"], whole)
        elif row["kind"] == "test":
            self._add_test(rank, row)
        elif row["kind"] == "host":
            self._add_host(rank, row)

    def close(self) -> None:
        """No more rows will come."""
        self._look_for_stragglers(FEWEST)

    def _add_whole(self, number: int, ranks: Sequence[Step]) -> None:
        """A step that every rank has finished and measured."""
        held_up = delays_caused(ranks) if len(ranks) > 1 else [None]
        for rank, ledger in enumerate(ledgers(ranks)):
            scalars: dict[str, float | None] = {f"ledger/{part}_ms": value * 1e3 for part, value in ledger.items()}
            if (caused := held_up[rank]) is not None:
                scalars["straggler/held_up_ms"] = caused * 1e3
            self._log(rank, number, scalars)
        self._late.add(number, ranks)
        self._look_for_stragglers(RECENT)

    def _look_for_stragglers(self, enough: int) -> None:
        if len(self._late.steps) < enough:
            return
        step = self._late.last
        scalars, event = self._late.judged()
        if scalars:
            self._log(0, step, scalars)
        if event:
            self.events.append((step, event))

    def _add_test(self, rank: int, row: TestRow) -> None:
        """Always of the whole test set: ranks that share it show the same, once all shares have been tested."""
        if row["whole"]:
            self._log(rank, row["step"], test_scalars([row]))
            return
        shares = self._shares[row["epoch"]]
        shares.append(row)
        if len(shares) == self._timeline.ranks:
            for each in range(len(shares)):
                self._log(each, row["step"], test_scalars(shares))

    def _add_host(self, rank: int, row: HostRow) -> None:
        """Rates are averaged over a step at least, as a step computes and then sends."""
        step, before = self._step.get(rank), self._host.setdefault(rank, row)
        scalars = memory_scalars(row)
        if row["time"] - before["time"] >= max(step["seconds"] if step else 0.0, SHORTEST):
            self._host[rank] = row
            scalars |= rate_scalars(before, row)
        self._log(rank, step["step"] if step else 0, scalars)

    def _log(self, rank: int, step: int, scalars: Mapping[str, float | None]) -> None:
        """What is not known, or was NaN or infinite, is left out."""
        known: Scalars = {tag: float(value) for tag, value in scalars.items() if value is not None}
        if known:
            self.points.append(Point(rank, step, known))


class Late:
    """Whether one rank keeps the others waiting: judged every ``RECENT`` steps, told when it changes."""

    def __init__(self) -> None:
        self.steps: list[Sequence[Step]] = []
        self.last = 0
        self._first = 0
        self._told: tuple[int, str] | None = None
        """The rank that was last told to be late, and why."""

    def add(self, number: int, ranks: Sequence[Step]) -> None:
        self._first = number if not self.steps else self._first
        self.last = number
        self.steps.append(ranks)

    def judged(self) -> tuple[Scalars, str]:
        """Scalars of the straggler, if there is one, and a sentence, if there is news. Begins a new window."""
        found = straggler(self.steps)
        place = f"steps {self._first} to {self.last}: "
        self.steps = []
        if found is None:
            event = f"{place}no rank is late any more" if self._told else ""
            self._told = None
            return {}, event
        event = f"{place}{sentence(found)}" if self._told != (found.rank, found.cause) else ""
        self._told = (found.rank, found.cause)
        return {"straggler/rank": float(found.rank), "straggler/late_ms": found.seconds * 1e3}, event


def step_scalars(row: StepRow, ranks: int | None) -> dict[str, float | None]:
    """``ranks``: how many train, if their throughput is to be told too, as if each were like this one."""
    scalars: dict[str, float | None] = {
        "train/loss": row.get("loss"),
        "train/samples_per_second": samples_per_second([[row]]),
        "train/seconds_per_step": row["seconds"],
        "train/epoch": row["epoch"],
    }
    if ranks is not None:
        scalars["train/samples_per_second_of_all_ranks"] = samples_per_second([[row]] * ranks)
    scalars |= {f"train/{name}": value for name, value in metrics_of_step(row).items()}
    if payload := row.get("payload"):
        sent, received = (sum(each) for each in zip(*payload.values(), strict=True))
        scalars |= {"network/payload_sent_mb": sent / 1e6, "network/payload_received_mb": received / 1e6}
    return scalars


def test_scalars(rows: Sequence[TestRow]) -> dict[str, float | None]:
    found = combined(rows)
    figures = {"loss": found.loss, **found.metrics} if found else {}
    return {f"test/{name}": value for name, value in figures.items()}


def memory_scalars(row: HostRow) -> dict[str, float | None]:
    scalars: dict[str, float | None] = {"host/memory_mb": row["memory_bytes"] / 1e6}
    if "gpu_peak_memory_bytes" in row:
        scalars["host/gpu_peak_memory_mb"] = row["gpu_peak_memory_bytes"] / 1e6
    scalars["host/gpu_utilization_percent"] = row.get("gpu_utilization")
    return scalars


def rate_scalars(before: HostRow, row: HostRow) -> dict[str, float | None]:
    names = {
        "host/cpu_percent": ("cpu_seconds", 100),
        "host/not_scheduled_percent": ("run_delay_seconds", 100),
        "network/sent_mb_per_second": ("sent_bytes", 1e-6),
        "network/received_mb_per_second": ("received_bytes", 1e-6),
    }
    return {
        tag: growth * factor
        for tag, (name, factor) in names.items()
        if (growth := rate(before, row, name)) is not None
    }
