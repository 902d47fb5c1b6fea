"""The rank that the others wait for, and what it does meanwhile. Arithmetic only."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from gradsync.ledger.parts import ledgers
from gradsync.ledger.spans import OWN_PARTS, Interval, covered
from gradsync.ledger.stamps import Step
from gradsync.record.summaries import StragglerFound

RECENT = 20  # steps looked at while a run goes on
FEWEST = 5  # steps it takes to say anything
SIGMAS = 3
SHARE, SECONDS = 0.1, 1e-3  # being late by less than a tenth of a step, or a millisecond, is not worth reporting

UNTIL_GRADIENTS = ("forward", "backward", "drain")
NO_CORE = "runnable, not scheduled"
LINK = "link"
OUTSIDE = "begins its steps late"  # testing, for instance, lies between two epochs


def sentence(found: StragglerFound) -> str:
    if found.cause == LINK:
        return f"rank {found.rank} is behind a slow link, costing {found.seconds * 1e3:.0f} ms a step; cause: link"
    return (
        f"rank {found.rank} arrives last in {found.late_steps} of {found.steps} steps, "
        f"by {found.seconds * 1e3:.0f} ms; cause: {found.cause}"
    )


def straggler(steps: Sequence[Sequence[Step]]) -> StragglerFound | None:
    """The rank that is last in more than half of the steps (each a list of all ranks), if it costs anything.

    What a rank makes the others wait, less what they make it wait, must be a tenth of a step or more in more than
    half of the steps, and too much to be chance: of two equal ranks, one is always last in half of the steps.
    """
    if len(steps) < FEWEST or len(steps[0]) < 2:
        return None
    delays = [delays_caused(ranks) for ranks in steps]
    enough = max(SHARE * statistics.median(step.seconds for ranks in steps for step in ranks), SECONDS)
    for rank in range(len(steps[0])):
        net = [2 * caused[rank] - sum(caused) for caused in delays]
        chance = SIGMAS * statistics.stdev(net) / len(net) ** 0.5
        if statistics.median(net) >= enough and statistics.fmean(net) > chance:
            late = [caused[rank] for caused in delays if caused[rank] == max(caused)]
            seconds = statistics.median(late)
            return StragglerFound(
                rank=rank,
                late_steps=len(late),
                steps=len(steps),
                seconds=seconds,
                cause=cause(rank, seconds, steps),
            )
    return None


def delays_caused(ranks: Sequence[Step]) -> list[float]:
    """Per rank: for how much of one step all others had arrived at a collective and this one had not."""
    arrivals: dict[int, list[tuple[float, int]]] = {number: [] for number in telling(ranks[0])}
    for rank, step in enumerate(ranks):
        for item in step.collectives:
            if item.number in arrivals:
                arrivals[item.number].append((item.start, rank))
    waited_for: list[list[Interval]] = [[] for _ in ranks]
    for starts in arrivals.values():
        if len(starts) == len(ranks):
            (before, _), (last, rank) = sorted(starts)[-2:]
            waited_for[rank].append((before, last))
    return [covered(intervals) for intervals in waited_for]  # several buckets may be in flight at once


def telling(step: Step) -> set[int]:
    """The collectives whose arrivals show how fast a rank computes.

    While it computes: all. After that, only the first: when a rank arrives at the next depends on the strategy, as
    for the rank that averages for the others.
    """
    computed = max((end for name, _, end in step.phases if name in UNTIL_GRADIENTS), default=step.begin)
    numbered = [(item.number, item.start) for item in step.collectives if item.number is not None]
    while_computing = [number for number, start in numbered if start < computed]
    after = [number for number, start in numbered if start >= computed]
    return {*while_computing, *after[:1]}


def cause(rank: int, seconds: float, steps: Sequence[Sequence[Step]]) -> str:
    """The part of the ledger in which this rank takes longer than the others do, if one explains the delay."""
    excess: dict[str, list[float]] = defaultdict(list)
    for ranks in steps:
        parts = ledgers(ranks)
        for name in OWN_PARTS:
            others = statistics.median(item[name] for other, item in enumerate(parts) if other != rank)
            excess[name].append(parts[rank][name] - others)
    longest = max(OWN_PARTS, key=lambda name: statistics.median(excess[name]))
    return longest if statistics.median(excess[longest]) >= seconds / 2 else OUTSIDE


def blame_cores(
    found: StragglerFound, without_core: Sequence[float], steps: Sequence[Sequence[Step]]
) -> StragglerFound:
    """Whether it lacked a core; ``without_core``: share of the time it was runnable but not scheduled, per rank."""
    others = statistics.median(share for rank, share in enumerate(without_core) if rank != found.rank)
    excess = (without_core[found.rank] - others) * statistics.median(ranks[found.rank].seconds for ranks in steps)
    return replace(found, cause=NO_CORE) if excess > found.seconds / 2 else found
