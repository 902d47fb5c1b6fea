"""How the ranks of a run ended, and which of them is to blame."""

from __future__ import annotations

import signal as signals
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gradsync.config.values import counted
from gradsync.errors import NOT_RECORDED, InputError, plainly, ran_out
from gradsync.record import RankRecord, log_file
from gradsync.record.rows import ErrorRow
from gradsync.record.summaries import Error, LostWorker
from gradsync.text import printable

INTERRUPTED = "Interrupted"
UNTOLD = -1_000
"""Instead of an exit code: the process died, and the program that started it does not say how."""

STOPPED = "Stopped"
"""The type of the error of a rank whose script was ended by a signal."""

LOG_LINES = 20


@dataclass(frozen=True)
class Outcome:
    """How the processes ended. An empty outcome: all went well."""

    exit_codes: dict[int, int] = field(default_factory=dict)
    """rank -> exit code of the ranks that failed by themselves; negative: killed by that signal"""

    lost: dict[int, int] = field(default_factory=dict)
    """The same for the ranks the run continued without."""

    signal: str | None = None
    """The signal that told us to stop."""

    failure: Exception | None = None
    """The launcher itself failed."""

    memory_ran_out: bool = False
    """The kernel killed a process for lack of memory during the run."""


def explain(outcome: Outcome, ranks: Sequence[RankRecord], folder: Path) -> Error | None:
    """The error of the run as it goes into summary.json, or None if there was none."""
    if outcome.signal:
        steps = max(len(record.steps) for record in ranks)
        message = f"stopped by {outcome.signal} after {counted(steps, 'step')}"
        return Error(
            rank=None,
            type=INTERRUPTED,
            message=message,
            traceback="",
            log=[],
            signal=outcome.signal,  # type: ignore[arg-type] # one of the three that stop us
        )
    if all_recorded(outcome, ranks):
        return None
    if outcome.failure:
        return failure_of_launcher(outcome.failure, outcome.memory_ran_out)
    if not outcome.exit_codes:
        return None
    killed = any(code < 0 and not ranks[rank].error for rank, code in outcome.exit_codes.items())
    if not killed and (unreachable := cut_off(ranks)):
        return unreachable
    return failure_of_rank(culprit(outcome.exit_codes, ranks), outcome, ranks, folder)


def failure_of_launcher(failure: Exception, memory_ran_out: bool) -> Error:
    says_all = isinstance(failure, InputError) or ran_out(failure)
    raised = failure.__traceback__ is not None and not says_all
    return Error(
        rank=None,
        type=type(failure).__name__,
        message=plainly(failure) + (f". HINT: {MEMORY_RAN_OUT}" if memory_ran_out else ""),
        traceback="".join(traceback.format_exception(failure)) if raised else "",
        log=[],
        out_of_memory=memory_ran_out,
    )


def failure_of_rank(rank: int, outcome: Outcome, ranks: Sequence[RankRecord], folder: Path) -> Error:
    exit_code = outcome.exit_codes.get(rank, 1)
    row = ranks[rank].error
    killed_for_memory = exit_code == -signals.SIGKILL and outcome.memory_ran_out
    return Error(
        rank=rank,
        type=row["type"] if row else "ProcessDied",
        message=row["message"] if row else died(exit_code, outcome.memory_ran_out),
        traceback=row["traceback"] if row else "",
        log=last_lines(folder, rank),
        out_of_memory=killed_for_memory or (row is not None and is_out_of_memory(row)),
    )


def all_recorded(outcome: Outcome, ranks: Sequence[RankRecord]) -> bool:
    """Whether every rank has recorded its end, except those the run continued without.

    Only this counts: mpiexec, srun or torchrun may still fail after the ranks have done their work.
    """
    return all(record.end for rank, record in enumerate(ranks) if rank not in outcome.lost)


def is_out_of_memory(row: ErrorRow) -> bool:
    """Whether CUDA, NumPy, Python or torch ran out of memory; torch on a CPU has no error type of its own for it."""
    return (
        "MemoryError" in row["type"] or "t allocate memory" in row["message"] or "not enough memory" in row["message"]
    )


def kills_for_memory() -> int:
    """How many processes the kernel has killed for lack of memory since boot, also at a control group's limit."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def cut_off(ranks: Sequence[RankRecord]) -> Error | None:
    """The error that names the node most others got no answer from, if that is why the run failed."""
    errors = {rank: record.error for rank, record in enumerate(ranks) if record.error}
    if not errors or not all(row["lost_peer"] for row in errors.values()):
        return None
    starts = {rank: record.start for rank, record in enumerate(ranks) if record.start}
    accusers: dict[str, list[int]] = {}
    for rank, row in errors.items():
        for address in row.get("silent_peers", []):
            accusers.setdefault(address, []).append(rank)
    most = max(map(len, accusers.values()), default=0)
    accused = [
        rank for rank, start in starts.items() if len(accusers.get(start.get("address") or "", [])) == most > 0
    ]
    if not accused:
        return None
    nodes = " and ".join(dict.fromkeys(starts[rank]["node"] for rank in accused))
    asking = sorted({rank for rank in accused for rank in accusers[starts[rank]["address"] or ""]})
    others = f"{'rank' if len(asking) == 1 else 'ranks'} {', '.join(map(str, asking))} got no answer from it"
    if len({starts[rank]["node"] for rank in accused}) > 1:
        others = "they get no answer from each other"
    message = f"{nodes} cannot be reached: {others} within --timeout. HINT: is the node down, or its link cut?"
    return Error(rank=accused[0], type="NodeUnreachable", message=message, traceback="", log=[])


def lost_ranks(outcome: Outcome, ranks: Sequence[RankRecord]) -> list[LostWorker]:
    """The workers that were lost while the others continued, as they go into summary.json."""
    found = []
    for rank, exit_code in sorted(outcome.lost.items()):
        error = ranks[rank].error
        message = f"{error['type']}: {error['message']}" if error else died(exit_code, outcome.memory_ran_out)
        found.append(LostWorker(rank=rank, steps=len(ranks[rank].steps), message=message))
    return found


def culprit(exit_codes: dict[int, int], ranks: Sequence[RankRecord]) -> int:
    """The rank that failed first by itself. A rank that only lost its peer is not the cause."""
    errors = {rank: record.error for rank, record in enumerate(ranks) if record.error}
    causes = {rank: row for rank, row in errors.items() if not (row["lost_peer"] or row["type"] == STOPPED)}
    if causes:
        return min(causes, key=lambda rank: causes[rank]["time"])
    silent = [rank for rank in exit_codes if rank not in errors]
    if silent:
        return silent[0]
    return min(errors, key=lambda rank: errors[rank]["time"]) if errors else min(exit_codes)


MEMORY_RAN_OUT = "the kernel has killed a process because memory ran out"

# Likely causes of a signal that ended a rank.
HINTS = {
    signals.SIGBUS: "a file it had mapped into memory, perhaps of the data set, has been truncated, or "
    "shared memory (/dev/shm) is full",
    signals.SIGSEGV: "look at what the rank printed last, in the logs of the run folder",
}


def died(exit_code: int, memory_ran_out: bool = False) -> str:
    """``memory_ran_out``: the kernel has killed a process for lack of memory."""
    if exit_code == -signals.SIGSTOP:
        return "the process was stopped (SIGSTOP) and did not resume within --timeout"
    if exit_code == NOT_RECORDED:
        return "the process could not write its record. HINT: is the disk full, or the run folder gone?"
    if exit_code == UNTOLD:
        return "the process was killed or crashed: its launcher does not say which"
    if exit_code >= 0:
        return f"the process ended with exit code {exit_code}"
    killer = signals.Signals(-exit_code)
    hint = MEMORY_RAN_OUT if memory_ran_out else HINTS.get(killer)
    return f"the process was killed by {killer.name}{f'. HINT: {hint}' if hint else ''}"


def last_lines(folder: Path, rank: int) -> list[str]:
    """The end of what the rank printed: its output, then its errors."""
    lines: list[str] = []
    for stream in ("out", "err"):
        path = log_file(folder, rank, stream)
        if path.is_file():
            lines += printable(path.read_text(errors="replace")).splitlines()[-LOG_LINES:]
    return lines
