"""What runs show, in plain sentences derived from their figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradsync.config.values import counted
from gradsync.exhibit.remarks import doubts
from gradsync.exhibit.runs.subjects import Subject
from gradsync.figures.catalogue.of_learning import ACCURACY
from gradsync.figures.catalogue.of_time import SAMPLES, STEP
from gradsync.figures.speed_up import SpeedUp, beyond_ideal, explained, speed_up
from gradsync.figures.value import mean_of, written
from gradsync.ledger.parts import HIDDEN
from gradsync.ledger.stragglers import sentence
from gradsync.record.summaries import PARTS

COMPUTING = ("forward", "backward")
WORTH_A_WORD = 0.03  # of a step
UNEVEN = 1.5  # one rank's bytes over the others'
MOST_FASTER = 4  # strategies named with their speed-ups


def findings(subjects: Sequence[Subject]) -> list[str]:
    """First what limits the validity of the result, then the result, most important first."""
    found = compared(subjects)
    return [
        *beyond_ideal([(item.name, ratio) for item, ratio in found]),
        *doubts(subjects),
        *pace(subjects, found),
        *explained([(item.case, ratio) for item, ratio in found]),
        *spent(subjects),
        *waiting(subjects),
        *uneven(subjects),
        *reached(subjects),
        *ended(subjects),
    ]


def compared(subjects: Sequence[Subject]) -> list[tuple[Subject, SpeedUp]]:
    """The subjects that have a speed-up, fastest first."""
    cases = [item.case for item in subjects]
    found = [(item, ratio) for item in subjects if (ratio := speed_up(item.case, cases))]
    return sorted(found, key=lambda pair: -(mean_of(pair[1].ratio) or 0.0))


def pace(subjects: Sequence[Subject], found: Sequence[tuple[Subject, SpeedUp]]) -> Iterator[str]:
    """The throughput, relative to one process where there is a run of it on the same work."""
    if found:
        (first, best), *rest = found[:MOST_FASTER]
        text = (
            f"{first.name} has {times(best)} the throughput of one process, at {efficiency(best)} of the ideal "
            f"({written(first.case.so_far(STEP))} s a step)"
        )
        others = ", ".join(f"{item.name} {times(ratio)}" for item, ratio in rest)
        yield f"{text}; {others}." if others else f"{text}."
        if not all(ratio.repeated for _, ratio in found):
            yield (
                "One run each: ± covers only the variation within a run, and another run may differ by more. "
                "HINT: --repeat 3 measures by how much."
            )
    elif fastest := quickest(subjects):
        told = " is the fastest" if sum(item.case.completed for item in subjects) > 1 else ""
        rate = written(fastest.case.so_far(SAMPLES), SAMPLES.form)
        yield f"{fastest.name}{told}: {written(fastest.case.so_far(STEP))} s a step, {rate} samples per second."


def times(ratio: SpeedUp) -> str:
    return f"{written(ratio.ratio, '.2f')}×"


def efficiency(ratio: SpeedUp) -> str:
    return written(ratio.efficiency, ".0%")


def quickest(subjects: Sequence[Subject]) -> Subject | None:
    done = [item for item in subjects if item.case.completed] or subjects
    timed = [item for item in done if item.figures.samples_per_second and item.figures.seconds_per_step]
    return max(timed, key=lambda item: item.figures.samples_per_second or 0.0, default=None)


def spent(subjects: Sequence[Subject]) -> Iterator[str]:
    """Where the time of a step goes: in the fastest run with several workers, else in the fastest of all."""
    measured = [item for item in subjects if item.measured]
    shared = [item for item in measured if len(item.figures.ranks) > 1]
    item = quickest(shared or measured)
    ledger = item.figures.ledger if item else None
    if item is None or ledger is None:
        return
    whole = sum(ledger.values()) or 1.0
    parts = {"forward and backward": sum(ledger[name] for name in COMPUTING)}
    names = NAMES | ({"wait": "waiting for a server"} if item.figures.updates else {})
    parts |= {names[name]: ledger[name] for name in PARTS if name not in COMPUTING}
    told = [
        f"{value / whole:.0%} {name}"
        for name, value in sorted(parts.items(), key=lambda pair: -pair[1])
        if value / whole >= WORTH_A_WORD
    ]
    behind = getattr(item.figures, HIDDEN) / whole
    beside = (
        f"; communication worth {behind:.0%} of it is hidden behind computation" if behind >= WORTH_A_WORD else ""
    )
    yield f"A step of {item.name} is {', '.join(told)}{beside}."


NAMES = {
    "data": "loading batches",
    "copy": "copying batches to the device",
    "wait": "waiting for the last rank",
    "wire": "moving bytes",
    "optimizer": "the optimizer",
    "other": "everything else",
}


def waiting(subjects: Sequence[Subject]) -> Iterator[str]:
    for item in subjects:
        if item.figures.straggler:
            yield f"{item.name}: {sentence(item.figures.straggler)}."


def uneven(subjects: Sequence[Subject]) -> Iterator[str]:
    for item in subjects:
        sent = [rank.network.sent_bytes if rank.network else 0 for rank in item.figures.ranks]
        known = [value for value in sent if value]
        if len(known) < 3 or len(known) < len(sent):
            continue
        most = max(known)
        others = (sum(known) - most) / (len(known) - 1)
        if most > UNEVEN * others:
            yield f"{item.name}: rank {known.index(most)} sends {most / others:.1f}× the average of the others."


def reached(subjects: Sequence[Subject]) -> Iterator[str]:
    tested = [(value, item) for item in subjects if (value := mean_of(item.case.so_far(ACCURACY))) is not None]
    if not tested:
        return
    (worst, last), (best, first) = min(tested, key=by_value), max(tested, key=by_value)
    if len(tested) == 1:
        yield f"{first.name} reaches {best:.1%} on the test set."
    elif best == worst:
        yield f"All {len(tested)} reach {best:.1%} on the test set."
    else:
        yield f"Test accuracy lies between {worst:.1%} ({last.name}) and {best:.1%} ({first.name})."


def by_value(pair: tuple[float, Subject]) -> float:
    return pair[0]


def ended(subjects: Sequence[Subject]) -> Iterator[str]:
    for status in ("failed", "unfinished"):
        names = [item.name for item in subjects if item.case.status == status]
        if names:
            yield f"{counted(len(names), 'run')} {status}: {', '.join(names)}. Figures up to that point are shown."
