"""The end of a run: summary.json from what its ranks have written, whoever started them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradsync import config as configs
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch import slurm_end
from gradsync.launch.outcome import Outcome, explain, lost_ranks
from gradsync.record import Row, Run, model_file, rank_files, rank_rows, read_rows, read_run, write_json
from gradsync.summary import LAST, first, of_kind, summarize
from gradsync.values import counted


class Killed(Exception):
    """So it seems: a rank has left no last word."""


def finish(folder: Path, anyway: bool = False) -> Run:
    """For a run that somebody else has started. ``anyway``: also if ranks have not ended, as they were killed."""
    if read_run(folder).summary:
        raise InputError(f"{folder} has been finished already: see it with gradsync show {folder}.")
    config = configs.load(folder / "config.json")
    everyone = rank_rows(folder, config.resolved().processes, stamps_until=0)
    missing = [rank for rank, rows in enumerate(everyone) if not rows]
    if missing and not anyway:
        raise InputError(
            f"{folder} has no record of {rank_names(missing)}: the run needs {len(everyone)}. "
            "HINT: start it, or wait until it has ended; if it never came so far, add --anyway."
        )
    ended = max((path.stat().st_mtime for path in rank_files(folder).values()), default=0.0)
    outcome = slurm_end.told(folder) or told_by_ranks(everyone, anyway)
    return write_summary(config, folder, outcome, began(folder, ended), ended)[0]


def began(folder: Path, otherwise: float) -> float:
    """When the first process of the run started, by their own records."""
    starts = (next(read_rows(path), {}) for path in rank_files(folder).values())
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
    resolved = config.resolved()
    everyone = rank_rows(folder, resolved.processes, stamps_until=LAST)
    ends = {n: row["time"] for n, rows in enumerate(everyone) for row in rows if row["kind"] == "end"}
    completed = len(ends) + len(outcome.lost) == len(everyone) and (others_to_come or outcome.went_well)
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
