"""The end of a run: summary.json from what its ranks have written, whoever started them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from errno import ENOENT
from pathlib import Path

from gradsync.config import Resolved
from gradsync.config.values import counted
from gradsync.config.window import parse_window
from gradsync.errors import InputError
from gradsync.launch.outcome import STOPPED, UNTOLD, Outcome, all_recorded, explain, lost_ranks
from gradsync.launch.slurm import end as slurm_end
from gradsync.ledger.summary import summarize
from gradsync.record import (
    RankRecord,
    Run,
    model_file,
    rank_files,
    read_run,
    records_until_damage,
    rows_so_far,
    write_json,
)
from gradsync.record.rows import ErrorRow


class Killed(Exception):
    """The run seems unfinished: the record of a rank has no end."""


def finish(folder: Path, anyway: bool = False, signal: str | None = None) -> Run:
    """Finish a run that this command has not started. ``anyway``: even if killed ranks recorded no end. ``signal``:
    the name of the one that ended it."""
    run = read_run(folder)
    if run.summary:
        raise InputError(f"{run.name} has been finished already: see it with gradsync show {run.name}.")
    if not isinstance(run, Run):
        raise InputError(f"{run.name} is a collective benchmark: it writes its own summary.")
    config = run.resolved
    everyone, damage = records_until_damage(folder, config.processes, stamps_until=0)
    if damage and not anyway:
        raise InputError(f"{damage}. HINT: add --anyway to write the summary of what can be read before that.")
    missing = [rank for rank, record in enumerate(everyone) if record.is_empty]
    if missing and not anyway:
        raise InputError(
            f"{run.name} has no record of {rank_names(missing)}: the run has {counted(len(everyone), 'rank')}. "
            "HINT: start it, or wait until it has ended; if it never got that far, add --anyway."
        )
    ended = max((path.stat().st_mtime for path in rank_files(folder).values()), default=0.0)
    outcome = slurm_end.told(folder) or (Outcome(failure=damage) if damage else told_by_ranks(everyone, anyway))
    told = outcome.failure is not None and not isinstance(outcome.failure, Killed)  # a signal leaves no end either
    if signal and not (told or any(record.error and is_own(record.error) for record in everyone)):
        outcome = Outcome(signal=signal)
    return write_summary(config, folder, outcome, began(folder, ended), ended)[0]


def is_own(error: ErrorRow) -> bool:
    """Whether a rank failed by itself, and not because of a signal or of another rank."""
    return not (error["lost_peer"] or error["type"] == STOPPED)


def began(folder: Path, otherwise: float) -> float:
    """When the first process of the run started, according to the ranks' own records."""
    firsts = (next(rows_so_far(path), None) for path in rank_files(folder).values())
    starts = [row for row in firsts if row is not None and row["kind"] == "start"]
    return min((row["began"] for row in starts if "began" in row), default=otherwise)


def told_by_ranks(everyone: Sequence[RankRecord], anyway: bool) -> Outcome:
    failed = [rank for rank, record in enumerate(everyone) if record.error]
    silent = [rank for rank, record in enumerate(everyone) if not (record.end or record.error)]
    if silent and anyway and failed and not any(is_own(record.error) for record in everyone if record.error):
        return Outcome(exit_codes=dict.fromkeys(silent, UNTOLD))  # it is the peer the others have lost
    if failed or not silent:
        return Outcome(exit_codes=dict.fromkeys(failed, 1))
    if not anyway:
        raise InputError(
            f"there is no end yet in the record of {rank_names(silent)}. HINT: wait until the run has ended; "
            "if it was killed, add --anyway."
        )
    steps = max(len(record.steps) for record in everyone)
    return Outcome(failure=Killed(f"no end in the record of {rank_names(silent)} after {counted(steps, 'step')}"))


def rank_names(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def write_summary(
    config: Resolved, folder: Path, outcome: Outcome, begin: float, ended: float, others_to_come: bool = False
) -> tuple[Run, float]:
    """Write summary.json from what the ranks have written and how they ended; also return the time of the end."""
    if not folder.is_dir():
        raise FileNotFoundError(ENOENT, "the run folder is gone: it was deleted during the run", str(folder))
    everyone, damage = records_until_damage(folder, config.processes, parse_window(config.window).last)
    if damage and not (outcome.exit_codes or outcome.failure):
        outcome = replace(outcome, failure=damage)
    ends = [record.end["time"] for record in everyone if record.end]
    completed = all_recorded(outcome, everyone) and (others_to_come or outcome.signal is None)
    end = max(ends) if completed else ended
    reason = None if completed else explain(outcome, everyone, folder)
    summary = summarize(config, everyone, reason, end - begin, lost_ranks(outcome, everyone))
    keep_newest_model(folder, everyone)
    write_json(folder / "summary.json", summary.to_dict())
    return Run(folder, config.asked, summary), end


def keep_newest_model(folder: Path, ranks: Sequence[RankRecord]) -> None:
    """Each worker of a server saves its model; the run keeps that of the worker that saw the most updates."""
    seen = {
        rank: max((row.get("update", 0) for row in (*record.steps, *record.tests)), default=0)
        for rank, record in enumerate(ranks)
    }
    left = [rank for rank in sorted(seen, key=lambda rank: -seen[rank]) if model_file(folder, rank).exists()]
    for number, rank in enumerate(left):
        if number == 0:
            model_file(folder, rank).replace(model_file(folder))
        else:
            model_file(folder, rank).unlink()
