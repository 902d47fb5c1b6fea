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
            of_what, first = "its uncertainty", ""
            if not item.repeated:
                of_what, first = "the variation within a run", "repeat the runs (--repeat 3), and "
            yield (
                f"{name}: an efficiency of {EFFICIENCY.text(item.efficiency)} is above {percent(1.0)} by more than "
                f"{of_what}. More workers cannot explain that: {first}look for what else differs, such as caches, "
                "threads or other load while the baseline ran."
            )


def explained(found: Sequence[tuple[Case, SpeedUp]]) -> list[str]:
    """What is compared, where the ideal is not the number of workers."""
    alike: dict[tuple[float, int | None, int | None], set[int]] = {}
    for case, item in found:
        workers = case.figures.world_size
        if abs(item.ideal / workers - 1) > ALIKE:
            alike.setdefault((item.ideal, item.base.figures.threads, case.figures.threads), set()).add(workers)
    return [
        f"One process computed with {threads_text(one)}, and each of {either(sorted(workers))} workers with "
        f"{threads_text(many)} on the same machine: they have {cores_text(ideal)}, so the ideal speed-up is "
        f"{ideal:.3g}×, not {either([f'{each}×' for each in sorted(workers)])}."
        for (ideal, one, many), workers in alike.items()
    ]


def either(values: Sequence[int | str]) -> str:
    return " or ".join(map(str, values))


def cores_text(ideal: float) -> str:
    return "no more cores than it had" if abs(ideal - 1) <= ALIKE else f"{ideal:.3g} times its cores"


def threads_text(threads: int | None) -> str:
    return f"{threads} thread{'' if threads == 1 else 's'}"
