"""How the ranks of a run ended, and which of them is to blame."""

from __future__ import annotations

import signal as signals
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradsync.errors import NOT_RECORDED, InputError, plainly, ran_out
from gradsync.record import Row, log_file
from gradsync.summary import first, of_kind
from gradsync.text import printable

INTERRUPTED = "Interrupted"
LOG_LINES = 20


@dataclass(frozen=True)
class Outcome:
    """Nothing in it: all went well."""

    exit_codes: dict[int, int] = field(default_factory=dict)
    """rank -> exit code of those that failed by themselves; negative: killed by that signal"""

    lost: dict[int, int] = field(default_factory=dict)
    """The same of those the run went on without."""

    signal: str | None = None
    """The signal that told us to stop."""

    failure: Exception | None = None
    """The launcher itself failed."""

    memory_ran_out: bool = False
    """The kernel has killed a process for lack of memory meanwhile."""


def explain(outcome: Outcome, ranks: list[list[Row]], folder: Path) -> dict[str, Any] | None:
    """The error of the run as it goes into summary.json, or None if there was none."""
    steps = max(len(of_kind(rows, "step")) for rows in ranks)
    if outcome.signal:
        return {
            "rank": None,
            "signal": outcome.signal,
            "type": INTERRUPTED,
            "message": f"stopped by {outcome.signal} after {steps} steps",
            "traceback": "",
            "log": [],
        }
    if all_recorded(outcome, ranks):
        return None
    if outcome.failure:
        says_all = isinstance(outcome.failure, InputError) or ran_out(outcome.failure)
        raised = outcome.failure.__traceback__ is not None and not says_all
        trace = "".join(traceback.format_exception(outcome.failure)) if raised else ""
        kind, message = type(outcome.failure).__name__, plainly(outcome.failure)
        if outcome.memory_ran_out:
            message = f"{message}. HINT: {MEMORY_RAN_OUT}"
        facts = {"traceback": trace, "log": [], "out_of_memory": outcome.memory_ran_out}
        return {"rank": None, "type": kind, "message": message, **facts}
    if not outcome.exit_codes:
        return None
    killed = any(code < 0 and not first(ranks[rank], "error") for rank, code in outcome.exit_codes.items())
    if not killed and (unreachable := cut_off(ranks)):
        return {**unreachable, "traceback": "", "log": []}
    rank = culprit(outcome.exit_codes, ranks)
    exit_code = outcome.exit_codes.get(rank, 1)
    row = first(ranks[rank], "error") or {
        "type": "ProcessDied",
        "message": died(exit_code, outcome.memory_ran_out),
        "traceback": "",
    }
    return {
        "rank": rank,
        "type": row["type"],
        "message": row["message"],
        "traceback": row["traceback"],
        "log": last_lines(folder, rank),
        "out_of_memory": is_out_of_memory(row) or (exit_code == -signals.SIGKILL and outcome.memory_ran_out),
    }


def all_recorded(outcome: Outcome, ranks: list[list[Row]]) -> bool:
    """Every rank has its end in the record, but for those the run went on without.

    That is what counts: mpiexec, srun or torchrun may still fail when the ranks have done their work.
    """
    return all(first(rows, "end") for rank, rows in enumerate(ranks) if rank not in outcome.lost)


def is_out_of_memory(row: Row) -> bool:
    """Of CUDA, of numpy and Python, or of torch on a CPU, which has no type of its own for it."""
    return (
        "MemoryError" in row["type"] or "t allocate memory" in row["message"] or "not enough memory" in row["message"]
    )


def kills_for_memory() -> int:
    """How many processes the kernel has killed for lack of memory since it runs, of a control group's too."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def cut_off(ranks: list[list[Row]]) -> dict[str, Any] | None:
    """The node most others got no answer from, if that is why the run failed."""
    errors = {rank: row for rank, rows in enumerate(ranks) if (row := first(rows, "error"))}
    if not errors or not all(row["lost_peer"] for row in errors.values()):
        return None
    starts = [first(rows, "start") or {} for rows in ranks]
    accusers: dict[str, list[int]] = {}
    for rank, row in errors.items():
        for address in row.get("silent_peers", []):
            accusers.setdefault(address, []).append(rank)
    most = max(map(len, accusers.values()), default=0)
    accused = [
        rank for rank, start in enumerate(starts) if len(accusers.get(start.get("address", ""), [])) == most > 0
    ]
    if not accused:
        return None
    nodes = " and ".join(dict.fromkeys(starts[rank]["node"] for rank in accused))
    asking = sorted({rank for rank in accused for rank in accusers[starts[rank]["address"]]})
    others = f"{'rank' if len(asking) == 1 else 'ranks'} {', '.join(map(str, asking))} got no answer from it"
    if len({starts[rank]["node"] for rank in accused}) > 1:
        others = "they get no answer from each other"
    return {
        "rank": accused[0],
        "type": "NodeUnreachable",
        "message": f"{nodes} cannot be reached: {others} within --timeout. HINT: is the node down, or its link cut?",
    }


def lost_ranks(outcome: Outcome, ranks: list[list[Row]]) -> list[dict[str, Any]]:
    """The workers that went while the others went on, as they go into summary.json."""
    found = []
    for rank, exit_code in sorted(outcome.lost.items()):
        error = first(ranks[rank], "error")
        message = f"{error['type']}: {error['message']}" if error else died(exit_code, outcome.memory_ran_out)
        found.append({"rank": rank, "steps": len(of_kind(ranks[rank], "step")), "message": message})
    return found


def culprit(exit_codes: dict[int, int], ranks: list[list[Row]]) -> int:
    """The rank that failed first by itself. A rank that only lost its peer is not the cause."""
    errors = {rank: row for rank, rows in enumerate(ranks) if (row := first(rows, "error"))}
    causes = {rank: row for rank, row in errors.items() if not row["lost_peer"]}
    if causes:
        return min(causes, key=lambda rank: causes[rank]["time"])
    silent = [rank for rank in exit_codes if rank not in errors]
    if silent:
        return silent[0]
    return min(errors, key=lambda rank: errors[rank]["time"]) if errors else min(exit_codes)


MEMORY_RAN_OUT = "the kernel has killed a process because memory ran out"

# What a signal that ended a rank means, where it means something.
HINTS = {
    signals.SIGBUS: "a file it had mapped into memory, perhaps of the data set, has become shorter meanwhile, or "
    "shared memory (/dev/shm) is full",
    signals.SIGSEGV: "look at what the rank printed last, in the logs of the run folder",
}


def died(exit_code: int, memory_ran_out: bool = False) -> str:
    """``memory_ran_out``: the kernel has said so."""
    if exit_code == -signals.SIGSTOP:
        return "the process was stopped (SIGSTOP) and did not go on within --timeout"
    if exit_code == NOT_RECORDED:
        return "the process could not write its record. HINT: is the disk full, or the run folder gone?"
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
