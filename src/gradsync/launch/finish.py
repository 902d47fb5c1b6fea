"""The end of a run: summary.json from what its ranks have written, whoever started them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from errno import ENOENT
from pathlib import Path

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch import slurm_end
from gradsync.launch.outcome import Outcome, all_recorded, explain, lost_ranks
from gradsync.record import (
    Row,
    Run,
    is_probe,
    model_file,
    rank_files,
    read_run,
    rows_so_far,
    rows_until_damage,
    write_json,
)
from gradsync.summary import LAST, first, of_kind, summarize
from gradsync.values import counted


class Killed(Exception):
    """So it seems: a rank has left no last word."""


def finish(folder: Path, anyway: bool = False) -> Run:
    """For a run that somebody else has started. ``anyway``: also if ranks have not ended, as they were killed."""
    run = read_run(folder)
    if run.summary:
        raise InputError(f"{run.name} has been finished already: see it with gradsync show {run.name}.")
    if is_probe(folder):
        raise InputError(f"{run.name} is a collective benchmark: it writes its own summary.")
    config = RunConfig(**run.config)
    everyone, damage = rows_until_damage(folder, config.resolved().processes, stamps_until=0)
    if damage and not anyway:
        raise InputError(f"{damage}. HINT: add --anyway to write the summary of what can be read before that.")
    missing = [rank for rank, rows in enumerate(everyone) if not rows]
    if missing and not anyway:
        raise InputError(
            f"{run.name} has no record of {rank_names(missing)}: the run needs {len(everyone)}. "
            "HINT: start it, or wait until it has ended; if it never came so far, add --anyway."
        )
    ended = max((path.stat().st_mtime for path in rank_files(folder).values()), default=0.0)
    outcome = slurm_end.told(folder) or (Outcome(failure=damage) if damage else told_by_ranks(everyone, anyway))
    return write_summary(config, folder, outcome, began(folder, ended), ended)[0]


def began(folder: Path, otherwise: float) -> float:
    """When the first process of the run started, by their own records."""
    starts = (next(rows_so_far(path), {}) for path in rank_files(folder).values())
    return min((row["began"] for row in starts if "began" in row), default=otherwise)


def told_by_ranks(everyone: list[list[Row]], anyway: bool) -> Outcome:
    failed = [rank for rank, rows in enumerate(everyone) if first(rows, "error")]
    silent = [rank for rank, rows in enumerate(everyone) if not (first(rows, "end") or first(rows, "error"))]
    if failed or not silent:
        return Outcome(exit_codes=dict.fromkeys(failed, 1))
    if not anyway:
        raise InputError(
            f"there is no end yet in the record of {rank_names(silent)}. HINT: wait until the run has ended; "
            "if it was killed, add --anyway."
        )
    steps = max(len(of_kind(rows, "step")) for rows in everyone)
    return Outcome(failure=Killed(f"no end in the record of {rank_names(silent)} after {counted(steps, 'step')}"))


def rank_names(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def write_summary(
    config: RunConfig, folder: Path, outcome: Outcome, begin: float, ended: float, others_to_come: bool = False
) -> tuple[Run, float]:
    """summary.json from what the ranks have written and how they ended; also tells when that was."""
    if not folder.is_dir():
        raise FileNotFoundError(ENOENT, "the run folder is gone: it was deleted while the run went on", str(folder))
    resolved = config.resolved()
    everyone, damage = rows_until_damage(folder, resolved.processes, stamps_until=LAST)
    if damage and not (outcome.exit_codes or outcome.failure):
        outcome = replace(outcome, failure=damage)
    ends = {n: row["time"] for n, rows in enumerate(everyone) for row in rows if row["kind"] == "end"}
    completed = all_recorded(outcome, everyone) and (others_to_come or outcome.signal is None)
    end = max(ends.values()) if completed else ended
    reason = None if completed else explain(outcome, everyone, folder)
    summary = summarize(resolved, everyone, reason, end - begin, lost_ranks(outcome, everyone))
    keep_newest_model(folder, everyone)
    write_json(folder / "summary.json", summary)
    return Run(folder, config.to_dict(), summary), end


def keep_newest_model(folder: Path, ranks: Sequence[Sequence[Row]]) -> None:
    """Workers of a server each leave the model they had; the run's is that of the one that saw the most updates."""
    seen = {rank: max((row.get("update", 0) for row in rows), default=0) for rank, rows in enumerate(ranks)}
    left = [rank for rank in sorted(seen, key=lambda rank: -seen[rank]) if model_file(folder, rank).exists()]
    for number, rank in enumerate(left):
        if number == 0:
            model_file(folder, rank).replace(model_file(folder))
        else:
            model_file(folder, rank).unlink()
