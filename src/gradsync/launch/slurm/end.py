"""How a Slurm job has ended, from its state, the output of srun, and the ranks' records."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from gradsync.config.values import counted
from gradsync.launch.outcome import Outcome
from gradsync.launch.processes import SIGNALS_BY_NAME, last_words
from gradsync.launch.slurm.script import LOG
from gradsync.record import rank_file, rank_files, rows_so_far

ENDS = {
    "COMPLETED": "ended",
    "FAILED": "failed",
    "CANCELLED": "was cancelled",
    "TIMEOUT": "reached its time limit",
    "DEADLINE": "reached its deadline",
    "NODE_FAIL": "lost a node",
    "BOOT_FAIL": "had a node that did not boot",
    "OUT_OF_MEMORY": "ran out of memory",
    "PREEMPTED": "was preempted by another job",
    "REVOKED": "was revoked",
}
HINTS = {
    "TIMEOUT": "give it a longer --time",
    "OUT_OF_MEMORY": "ask for more memory, for instance --sbatch mem-per-cpu=4G",
}
FORGOTTEN = "forgotten"  # Slurm forgets a job some minutes after its end

LOOK_AGAIN_SECONDS = 0.5
SHARED_SECONDS = 10  # until what other nodes have written is visible here


class JobEnded(Exception):
    """The job ended before its work was done."""


def outcome(job: str, state: str, folders: Sequence[Path], processes: int) -> Outcome:
    """What the end of the job means for the run that was in progress."""
    words = said(folders[0])
    begun = [folder for folder in folders if rank_files(folder)]
    if state in ("COMPLETED", FORGOTTEN):
        missing = unended(folders[-1], processes)
        return Outcome(failure=JobEnded(left_no_record(job, missing))) if missing else Outcome()
    if state == "FAILED":
        state = cancelled(words) or state
    if state != "FAILED":
        return Outcome(failure=JobEnded(sentence(job, state, steps_done(begun[-1]) if begun else 0)))
    if not begun:
        return Outcome(failure=JobEnded(f"the Slurm job {job} started nothing: {last_words(words)}"))
    return Outcome(exit_codes=exit_codes(words) or {0: 1})


def told(folder: Path) -> Outcome | None:
    """The outcome of a run whose job no command has followed, where Slurm's output is enough."""
    words = said(folder)
    state, codes = cancelled(words), exit_codes(words)
    if state:
        number = re.search(r"(?:STEP|JOB) (\d+)", words)
        return Outcome(failure=JobEnded(sentence(number[1] if number else "", state, steps_done(folder))))
    return Outcome(exit_codes=codes) if codes else None


def said(folder: Path) -> str:
    """What Slurm and srun have printed."""
    log = folder / "logs" / LOG
    return log.read_text(errors="replace") if log.exists() else ""


def sentence(job: str, state: str, steps: int) -> str:
    hint = f". HINT: {HINTS[state]}" if state in HINTS else ""
    return f"the Slurm job {job} {ENDS[state]} after {counted(steps, 'step')}{hint}"


def left_no_record(job: str, ranks: Sequence[int]) -> str:
    return (
        f"the Slurm job {job} ended, but {counted(len(ranks), 'rank')} ({', '.join(map(str, ranks))}) left no "
        "complete record. HINT: the run folder must be on a file system that all nodes share (--out)."
    )


def steps_done(folder: Path) -> int:
    """The steps of the rank that has done the most."""
    counts = (sum(row["kind"] == "step" for row in rows_so_far(path)) for path in rank_files(folder).values())
    return max(counts, default=0)


def unended(folder: Path, processes: int) -> list[int]:
    """The ranks without an end in their records; records from other nodes may arrive late."""
    until = time.monotonic() + SHARED_SECONDS
    while True:
        found = [rank for rank in range(processes) if not has_ended(rank_file(folder, rank))]
        if not found or time.monotonic() > until:
            return found
        time.sleep(LOOK_AGAIN_SECONDS)


def has_ended(path: Path) -> bool:
    return any(row["kind"] == "end" for row in rows_so_far(path))


def cancelled(log: str) -> str | None:
    """CANCELLED or TIMEOUT if Slurm ended the tasks before one failed: a step can be cancelled without its job."""
    for line in log.splitlines():
        if failed_tasks(line):
            return None
        if re.search(r"\*\*\* (STEP|JOB) .* CANCELLED AT ", line):
            return "TIMEOUT" if "DUE TO TIME LIMIT" in line else "CANCELLED"
    return None


def exit_codes(log: str) -> dict[int, int]:
    """rank -> exit code of those that failed by themselves: srun names them before it ends the others."""
    found: dict[int, int] = {}
    for line in log.splitlines():
        if "Terminating StepId" in line:
            break
        found |= failed_tasks(line)
    return found


def failed_tasks(line: str) -> dict[int, int]:
    """``srun: error: node2: task 2: Exited with exit code 3`` or ``srun: error: node2: tasks 2-3: Killed``."""
    told = re.match(r"srun: error: \S+: tasks? ([\d,-]+): (?:Exited with exit code (\d+)|([^(]+))", line)
    if not told:
        return {}
    code = int(told[2]) if told[2] else -SIGNALS_BY_NAME.get(told[3].strip(), -1)
    return dict.fromkeys(numbers(told[1]), code)


def numbers(text: str) -> list[int]:
    """``0,2-3`` is [0, 2, 3]."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
