"""Speed-up and efficiency: against which run, by which formula, and what would be ideal.

speed-up = samples per second / samples per second of the baseline. Where both have the same batch, that is the ratio
of their step times. efficiency = speed-up / ideal, and the ideal is how many times the baseline's cores (or GPUs) the
run computes on: N workers that share the cores which one process had to itself cannot be N times as fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.figures.cases import Case
from gradsync.figures.catalogue.of_time import SAMPLES
from gradsync.figures.place import cores_used, place_of
from gradsync.figures.value import Spread, Value, deviation_of, mean_of, ratio, scaled, written

SAME_WORK = ("model", "norm", "data", "precision", "accumulate")
CERTAIN = 2  # deviations
ALIKE = 0.02  # an ideal this close to the number of workers counts as that number


@dataclass(frozen=True)
class SpeedUp:
    base: Case
    ratio: float | Spread
    """With its uncertainty: from repeats where there are some, else from the spread of the steps alone."""

    ideal: float
    repeated: bool
    """Whether both were repeated: only then does the uncertainty cover other runs."""

    @property
    def efficiency(self) -> Value:
        return scaled(self.ratio, 1 / self.ideal)

    @property
    def beyond_ideal(self) -> bool:
        """Above 100 % by more than its uncertainty: the runs differ in more than the number of workers."""
        mean, deviation = mean_of(self.efficiency) or 0.0, deviation_of(self.efficiency) or 0.0
        return mean - CERTAIN * deviation > 1 + ALIKE


def speed_up(case: Case, found: Sequence[Case]) -> SpeedUp | None:
    """None for one process, and where no such run did the same work on the same hardware."""
    base = baseline(case, found)
    if base is None or is_one_process(case):
        return None
    quotient = ratio(rate(case), rate(base))
    return SpeedUp(base, quotient, ideal(case, base), min(len(case.runs), len(base.runs)) > 1) if quotient else None


def rate(case: Case) -> Value:
    """Samples per second: with the deviation over repeats, else with the standard error of the mean of its steps."""
    value = case.so_far(SAMPLES)
    if len(case.runs) == 1 and isinstance(value, Spread):
        return Spread(value.mean, value.deviation / max(1, case.figures.timed_steps) ** 0.5)
    return value


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
    done = base.completed and is_one_process(base) and bool(mean_of(base.value(SAMPLES)))
    return done and base is not case and work_of(base, case) == work_of(case, case)


def work_of(case: Case, compared: Case) -> tuple[Any, ...]:
    """What must be the same: model, data, batch, hardware, share of the cores, and how threads were chosen.

    The batch is that of each worker where it was set per worker (weak scaling), else the global batch.
    """
    figures, asked = case.figures, case.setting
    share = compared.setting.get("batch_per_worker")
    batch = figures.batch_size // figures.world_size if share else figures.batch_size
    same = tuple(getattr(figures, name) for name in SAME_WORK)
    return (*same, *place_of(figures), batch, asked.get("threads"))


def ideal(case: Case, base: Case) -> float:
    """How many times the cores, or GPUs, of the baseline; the number of workers where that is unknown."""
    own, one = cores_used(case.figures), cores_used(base.figures)
    return own / one if own and one else float(case.figures.world_size)


def beyond_ideal(named: Sequence[tuple[str, SpeedUp]]) -> Iterator[str]:
    """Why a speed-up should not be taken at face value."""
    for name, item in named:
        if item.beyond_ideal:
            yield (
                f"{name}: an efficiency of {written(item.efficiency, '.0%')} is above 100 % by more than its "
                "uncertainty. More workers cannot explain that: look for what else differs, such as caches, threads "
                "or other load while the baseline ran."
            )


def explained(found: Sequence[tuple[Case, SpeedUp]]) -> list[str]:
    """What is compared, where the ideal is not the number of workers."""
    sentences = {}
    for case, item in found:
        workers, base = case.figures.world_size, item.base.figures
        if abs(item.ideal / workers - 1) > ALIKE:
            one, many = threads_text(base.threads), threads_text(case.figures.threads)
            sentences[workers, item.ideal] = (
                f"One process computed with {one}, and each of {workers} workers with {many} on the same machine: "
                f"they have {cores_text(item.ideal)}, so the ideal speed-up is {item.ideal:.3g}×, not {workers}×."
            )
    return list(sentences.values())


def cores_text(ideal: float) -> str:
    return "no more cores than it had" if abs(ideal - 1) <= ALIKE else f"{ideal:.3g} times its cores"


def threads_text(threads: int | None) -> str:
    return f"{threads} thread{'' if threads == 1 else 's'}"
