"""The ledger: the seconds of each part of a step, which add up to its wall time. Arithmetic only.

In addition to the parts, ``hidden_comm`` is communication that ran while the training thread computed: wait + wire +
hidden_comm is the time in which a collective was in flight.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.ledger.spans import TRAINING, covered, spans
from gradsync.ledger.stamps import Step
from gradsync.record.summaries import PARTS

HIDDEN = "hidden_comm"

Ledger = dict[str, float]


def ledgers(ranks: Sequence[Step]) -> list[Ledger]:
    """The ledger of every rank for one step: sums of its spans."""
    found = [dict.fromkeys((*PARTS, HIDDEN), 0.0) for _ in ranks]
    for rank, lane, part, start, end in spans(ranks):
        if lane == TRAINING:
            found[rank][part] += end - start
    for ledger, step in zip(found, ranks, strict=True):
        ledger[HIDDEN] = max(0.0, under_way(step) - ledger["wait"] - ledger["wire"])
    return found


def under_way(step: Step) -> float:
    """For how much of the step a collective was in flight."""
    return covered((max(item.start, step.begin), min(item.end, step.end)) for item in step.collectives)


def mean(items: Sequence[Ledger]) -> Ledger | None:
    if not items:
        return None
    return {name: sum(item[name] for item in items) / len(items) for name in (*PARTS, HIDDEN)}
