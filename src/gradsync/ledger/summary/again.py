"""The figures of a run read from its folder: as summarized, for another window, or as far as it has got."""

from __future__ import annotations

from dataclasses import replace

from gradsync.config.window import parse_window
from gradsync.ledger.summary.timed import timed
from gradsync.ledger.summary.whole import summarize
from gradsync.record import Run, RunSummary, rank_records

FEWEST = 5  # later steps it takes to say anything about them


def figures_of(run: Run) -> RunSummary:
    """Its summary, or what the rows of an unfinished run show so far."""
    if run.summary:
        return run.summary
    config = replace(run.resolved, window=run.asked.window)
    until = parse_window(config.window).last
    return summarize(config, rank_records(run.folder, config.processes, until), None, 0.0)


def summarized_again(run: Run, window: str) -> Run:
    """The same run with the figures of another window, from its rows. Nothing is written."""
    asked = replace(run.asked, window=window)  # rejects an invalid window
    if run.summary is None or run.summary.window == window:
        return replace(run, asked=asked)
    summary, steps = run.summary, parse_window(window)
    found = timed(
        rank_records(run.folder, len(summary.ranks), steps.last),
        steps,
        {item.rank for item in summary.lost},
        [rank.run_delay_percent for rank in summary.ranks],
    )
    ranks = [
        replace(rank, seconds_per_step=own.seconds_per_step, ledger=own.ledger, hidden_comm=own.hidden_comm)
        for rank, own in zip(summary.ranks, found.ranks, strict=True)
    ]
    return replace(run, asked=asked, summary=replace(summary, window=window, **{**vars(found), "ranks": ranks}))


def differs_later(summary: RunSummary) -> bool:
    """Whether the steps after the window took longer, or less, by more than the spread of those in it."""
    later, mean, spread = summary.later, summary.seconds_per_step, summary.seconds_per_step_spread
    if later is None or mean is None or spread is None or later.steps < FEWEST:
        return False
    return abs(later.seconds_per_step - mean) > spread
