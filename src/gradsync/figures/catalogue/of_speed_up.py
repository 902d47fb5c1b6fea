"""Speed-up and efficiency: against which run, by which formula, and what would be ideal.

speed-up = samples per second / samples per second of the baseline. Where both have the same batch, that is the ratio
of their step times. efficiency = speed-up / ideal, and the ideal is how many times the baseline's cores (or GPUs) the
run computes on: N workers that share the cores which one process had to itself cannot be N times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from gradsync.config.resolved import optimizer_for
from gradsync.config.training import Compute, Recipe, TaskSettings
from gradsync.figures.cases import Case
from gradsync.figures.catalogue import of_time
from gradsync.figures.figure import At, Figure, Formula
from gradsync.figures.noise import estimate, is_repeated, relative_chance
from gradsync.figures.place import cores_used, place_of
from gradsync.figures.value import Spread, Value, mean_of, ratio, scaled

# Settings of the training that leave a step as long as it is, or that are compared in another way.
OTHER_SETTINGS = {
    *("seed", "train_samples", "test_samples", "metric", "epochs", "steps", "reshuffle", "start", "buffers"),
    *("lr", "lr_scaling", "warmup_epochs", "schedule", "decay_epochs", "momentum", "weight_decay", "keep_going"),
    *("batch_size", "batch_per_worker", "optimizer", "server_placement", "device"),
}
SAME_WORK = [
    item.name for kind in (TaskSettings, Recipe, Compute) for item in fields(kind) if item.name not in OTHER_SETTINGS
]
ALIKE = 0.02  # an ideal this close to the number of workers counts as that number


@dataclass(frozen=True)
class SpeedUp:
    case: Case
    base: Case
    ratio: float | Spread
    """With its uncertainty: from repeats where there are some, else from the spread of the steps alone."""

    ideal: float

    @property
    def repeated(self) -> bool:
        """Whether both were: only then does the uncertainty cover other runs."""
        return is_repeated([self.case, self.base])

    @property
    def efficiency(self) -> Value:
        return scaled(self.ratio, 1 / self.ideal)

    @property
    def beyond_ideal(self) -> bool:
        """Above 100% by more than its uncertainty: the runs differ in more than the number of workers.

        Of one run each that is not decided, as their variation from run to run is not known.
        """
        mean = mean_of(self.efficiency) or 0.0
        return mean * (1 - relative_chance([self.case, self.base], of_time.SAMPLES)) > 1 + ALIKE


def speed_up(case: Case, found: Sequence[Case]) -> SpeedUp | None:
    """None for one process, and where no such run did the same work on the same hardware."""
    base = baseline(case, found)
    return None if base is None or is_one_process(case) else compared(case, base)


def compared(case: Case, base: Case) -> SpeedUp | None:
    """None where one of them has no throughput."""
    rates = [estimate(each, of_time.SAMPLES) for each in (case, base)]
    quotient = 1.0 if case is base and rates[0] else ratio(*rates)
    return SpeedUp(case, base, quotient, ideal(case, base)) if quotient else None


def has_speed_ups(found: Sequence[Case]) -> bool:
    return any(speed_up(case, found) for case in found)


def is_one_process(case: Case) -> bool:
    return case.figures.strategy == "local"


def baseline(case: Case, found: Sequence[Case]) -> Case | None:
    """A completed run of one process that did the same work on the same kind of hardware.

    If there are several, the nearest one before the case: that of the same comparison.
    """
    here = next((index for index, other in enumerate(found) if other is case), 0)
    nearest = [*found[here::-1], *found[here:]]
    return next((other for other in nearest if is_baseline(other, case)), None)


def is_baseline(base: Case, case: Case) -> bool:
    if base is case or not (base.completed and is_one_process(base) and mean_of(base.value(of_time.SAMPLES))):
        return False
    weak = is_weak(case)
    return work_of(base, weak) == work_of(case, weak)


def is_weak(case: Case) -> bool:
    """Whether the batch was set for each worker, so that it grows with them."""
    return bool(case.setting.get("batch_per_worker"))


def work_of(case: Case, weak: bool) -> tuple[Any, ...]:
    """What must be the same: what a step computes, as it was asked for, on which hardware and share of the cores.

    As asked for, since only there threads are left to the machine, and two objects of a notebook with one name are
    two. The batch is that of each worker in weak scaling, else the global batch.
    """
    figures, asked = case.figures, case.run.asked
    batch = figures.batch_size // figures.world_size if weak else figures.batch_size
    same = (getattr(asked, name) for name in SAME_WORK)
    alike = (tuple(sorted(value.items())) if isinstance(value, dict) else value for value in same)
    return (*alike, optimizer_for(asked), *place_of(figures), batch)


def ideal(case: Case, base: Case) -> float:
    """How many times the cores, or GPUs, of the baseline; the number of workers where that is unknown."""
    own, one = cores_used(case.figures), cores_used(base.figures)
    return own / one if own and one else float(case.figures.world_size)


def alone(at: At) -> None:
    """A run by itself has no relative figure."""


@dataclass(frozen=True, kw_only=True)
class Relative(Figure):
    """A figure of a case compared with another one."""

    of: Formula = alone
    of_pair: Callable[[SpeedUp], Value]

    of_base: float | None = None
    """The value of one process itself, where others are compared with it."""

    def among(self, case: Case, found: Sequence[Case]) -> Value:
        """Against one process among these that did the same work."""
        if item := speed_up(case, found):
            return self.of_pair(item)
        return self.of_base if is_one_process(case) and has_speed_ups(found) else None

    def against(self, case: Case, base: Case) -> Value:
        """Against a case of our choice."""
        item = compared(case, base) if case.completed and base.completed else None
        return self.of_pair(item) if item else None


SPEED_UP = Relative(
    "speed-up",
    "speed-up",
    meaning="throughput over that of one process with the same work on the same hardware",
    unit="×",
    form=".2f",
    compared="absolute",
    of_steps=True,
    of_pair=lambda item: item.ratio,
    of_base=1.0,
)
EFFICIENCY = Relative(
    "efficiency",
    "efficiency",
    meaning="speed-up divided by the ideal, the ratio of the workers' cores or GPUs to those of one process",
    form=".0%",
    compared="absolute",
    of_steps=True,
    of_pair=lambda item: item.efficiency,
)
