"""What must be said beside a speed-up: why it may not be believed, and what its ideal is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradsync.figures.cases import Case
from gradsync.figures.catalogue.of_speed_up import ALIKE, EFFICIENCY, SpeedUp
from gradsync.figures.value import percent


def beyond_ideal(named: Sequence[tuple[str, SpeedUp]]) -> Iterator[str]:
    """Why a speed-up should not be taken at face value."""
    for name, item in named:
        if item.beyond_ideal:
            yield (
                f"{name}: an efficiency of {EFFICIENCY.text(item.efficiency)} is above {percent(1.0)} by more than "
                "its uncertainty. More workers cannot explain that: look for what else differs, such as caches, "
                "threads or other load while the baseline ran."
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
