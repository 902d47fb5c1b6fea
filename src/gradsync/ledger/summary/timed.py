"""How long the steps of the window took, where their time went, and which rank was slow in them."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gradsync.config.window import Window
from gradsync.ledger import slow_links, stragglers
from gradsync.ledger.parts import HIDDEN, Ledger, ledgers, mean
from gradsync.ledger.rates import samples_per_second
from gradsync.ledger.stamps import Step
from gradsync.ledger.timeline import whole_steps
from gradsync.record import RankRecord
from gradsync.record.summaries import PARTS, Later, StragglerFound


@dataclass(frozen=True)
class TimedRank:
    seconds_per_step: float | None
    ledger: Ledger | None
    hidden_comm: float | None


@dataclass(frozen=True)
class Timed:
    """The figures of a summary that depend on its window, under the names they have there."""

    window_first: int | None
    window_last: int | None
    later: Later | None
    seconds_per_step: float | None
    seconds_per_step_spread: float | None
    samples_per_second: float | None
    ledger: Ledger | None
    hidden_comm: float | None
    straggler: StragglerFound | None
    ranks: list[TimedRank]


def timed(
    ranks: Sequence[RankRecord], window: Window, gone: Collection[int], without_core: Sequence[float | None]
) -> Timed:
    """``gone``: workers the others continued without; ``without_core``: of each rank, in percent of the time."""
    first, last = window.bounds(max((row["step"] for record in ranks for row in record.steps), default=0))
    own = [[row for row in record.steps if first <= row["step"] <= last] for record in ranks]
    numbers = [row["step"] for rows in own for row in rows]
    seconds = [row["seconds"] for rows in own for row in rows]
    steps = whole_steps(ranks, first, last)
    each = [ledgers(step) for step in steps]
    parts, hidden = mean_ledger([ledger for step in each for ledger in step])
    return Timed(
        window_first=min(numbers, default=None),
        window_last=max(numbers, default=None),
        later=later(ranks, last),
        seconds_per_step=statistics.fmean(seconds) if seconds else None,
        seconds_per_step_spread=spread(seconds),
        samples_per_second=samples_per_second([rows for rank, rows in enumerate(own) if rank not in gone]),
        ledger=parts,
        hidden_comm=hidden,
        straggler=straggler(ranks, steps, without_core),
        ranks=[
            TimedRank(
                statistics.fmean(row["seconds"] for row in rows) if rows else None,
                *mean_ledger([step[rank] for step in each]),
            )
            for rank, rows in enumerate(own)
        ],
    )


def later(ranks: Sequence[RankRecord], last: int) -> Later | None:
    """The steps after ``last``."""
    rows = [row for record in ranks for row in record.steps if row["step"] > max(last, 1)]
    if not rows:
        return None
    seconds = [row["seconds"] for row in rows]
    return Later(
        steps=len({row["step"] for row in rows}),
        seconds_per_step=statistics.fmean(seconds),
        seconds_per_step_spread=spread(seconds),
    )


def spread(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def mean_ledger(items: Sequence[Ledger]) -> tuple[Ledger | None, float | None]:
    """The parts, which add up to the time of a step, and the communication hidden behind them."""
    found = mean(items)
    return ({part: found[part] for part in PARTS}, found[HIDDEN]) if found else (None, None)


def straggler(
    ranks: Sequence[RankRecord], steps: Sequence[Sequence[Step]], without_core: Sequence[float | None]
) -> StragglerFound | None:
    """The rank the others wait for: because of its link, or of itself, and whether it only lacks a core."""
    if steps and (link := slow_links.slow_link(ranks, *pace(ranks, steps))):
        return link
    found = stragglers.straggler(steps)
    return stragglers.blame_cores(found, [(share or 0.0) / 100 for share in without_core], steps) if found else None


def pace(ranks: Sequence[RankRecord], steps: Sequence[Sequence[Step]]) -> tuple[int, float, float]:
    """Steps made, the seconds of one, and how many collectives it has."""
    made = max(len(record.steps) for record in ranks)
    seconds = statistics.median(step.seconds for each in steps for step in each)
    return made, seconds, statistics.median(len(step.collectives) for each in steps for step in each)
