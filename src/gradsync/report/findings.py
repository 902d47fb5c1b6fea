"""What runs show, in plain sentences worked out from their figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gradsync.meter.ledger import HIDDEN, PARTS
from gradsync.meter.stragglers import recorded
from gradsync.report import columns
from gradsync.report.collect import Shown
from gradsync.values import counted

COMPUTING = ("forward", "backward")
WORTH_A_WORD = 0.03  # of a step
UNEVEN = 1.5  # one rank's bytes over the others'
MOST_FASTER = 4  # strategies named with their speed-ups


def findings(items: Sequence[Shown]) -> list[str]:
    """Most important first."""
    return [*pace(items), *spent(items), *waiting(items), *uneven(items), *reached(items), *ended(items)]


def pace(items: Sequence[Shown]) -> Iterator[str]:
    """Against one process, where there is a run of it on the same work."""
    faster = sorted(((ratio, item) for item in items if (ratio := speed_up(item, items))), key=lambda pair: -pair[0])
    if faster:
        (best, first), *rest = faster[:MOST_FASTER]
        text = (
            f"{first.name} is {best:.2f}× as fast as one process ({first.figures['seconds_per_step']:.3g} s a step)"
        )
        others = ", ".join(f"{item.name} {ratio:.2f}×" for ratio, item in rest)
        yield f"{text}; {others}." if others else f"{text}."
    elif fastest := quickest(items):
        rate, seconds = fastest.figures["samples_per_second"], fastest.figures["seconds_per_step"]
        told = " is the fastest" if len(items) > 1 else ""
        yield f"{fastest.name}{told}: {seconds:.3g} s a step, {rate:,.0f} samples a second."


def speed_up(item: Shown, items: Sequence[Shown]) -> float | None:
    """None for a run in one process, and where no such run did the same work."""
    if item.figures["strategy"] == "local":
        return None
    return columns.speed_up(item.line, [other.line for other in items])


def quickest(items: Sequence[Shown]) -> Shown | None:
    timed = [item for item in items if item.figures["samples_per_second"] and item.figures["seconds_per_step"]]
    return max(timed, key=lambda item: item.figures["samples_per_second"], default=None)


def spent(items: Sequence[Shown]) -> Iterator[str]:
    """Where the time of the fastest goes that is not one process, or of the only one."""
    measured = [item for item in items if item.measured]
    shared = [item for item in measured if item.figures["strategy"] != "local"]
    item = quickest(shared or measured)
    if item is None:
        return
    ledger = item.figures["ledger"]
    whole = sum(ledger.values()) or 1.0
    parts = {"forward and backward": sum(ledger[name] for name in COMPUTING)}
    parts |= {NAMES.get(name, name): ledger[name] for name in PARTS if name not in COMPUTING}
    told = [
        f"{value / whole:.0%} {name}"
        for name, value in sorted(parts.items(), key=lambda pair: -pair[1])
        if value / whole >= WORTH_A_WORD
    ]
    behind = item.figures[HIDDEN] / whole
    beside = f"; communication worth {behind:.0%} of it is hidden behind computing" if behind >= WORTH_A_WORD else ""
    yield f"A step of {item.name} is {', '.join(told)}{beside}."


NAMES = {
    "data": "making batches",
    "copy": "copying them",
    "wait": "waiting for the last rank",
    "wire": "moving bytes",
    "optimizer": "the optimizer",
    "other": "everything else",
}


def waiting(items: Sequence[Shown]) -> Iterator[str]:
    for item in items:
        if item.figures.get("straggler"):
            yield f"{item.name}: {recorded(item.figures['straggler'])}."


def uneven(items: Sequence[Shown]) -> Iterator[str]:
    for item in items:
        sent = [(rank["network"] or {}).get("sent_bytes") for rank in item.figures["ranks"]]
        known = [value for value in sent if value]
        if len(known) < 3 or len(known) < len(sent):
            continue
        most = max(known)
        others = (sum(known) - most) / (len(known) - 1)
        if most > UNEVEN * others:
            yield f"{item.name}: rank {known.index(most)} sends {most / others:.1f}× what another rank does."


def reached(items: Sequence[Shown]) -> Iterator[str]:
    tested = [(item.figures["test"]["accuracy"], item) for item in items if item.figures["test"]]
    if not tested:
        return
    (worst, last), (best, first) = min(tested, key=by_value), max(tested, key=by_value)
    if len(tested) == 1:
        yield f"It reaches {best:.1%} on the test set."
    elif best == worst:
        yield f"All {len(tested)} reach {best:.1%} on the test set."
    else:
        yield f"Test accuracy lies between {worst:.1%} ({last.name}) and {best:.1%} ({first.name})."


def by_value(pair: tuple[float, Any]) -> float:
    return pair[0]


def ended(items: Sequence[Shown]) -> Iterator[str]:
    for status in ("failed", "unfinished"):
        names = [item.name for item in items if item.run.status == status]
        if names:
            yield f"{counted(len(names), 'run')} {status}: {', '.join(names)}. What they did until then is shown."
