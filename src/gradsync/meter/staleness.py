"""What parameter servers did with the gradients that were pushed to them. Arithmetic only.

A push has staleness s if s updates were applied from the moment its worker read the parameters to the moment its
gradient came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from gradsync.record import Row


def pushes(ranks: Iterable[list[Row]]) -> list[Row]:
    """To the first server: every gradient comes to all of them, each taking its shard."""
    of_servers = ([row for row in rows if row["kind"] == "push"] for rows in ranks)
    return next((rows for rows in of_servers if rows), [])


def served(ranks: list[list[Row]]) -> dict[str, Any]:
    """Updates of the parameters, how stale the applied gradients were, and how many were dropped."""
    found = pushes(ranks)
    if not found:
        return {"updates": None, "staleness": None}
    counts = Counter(row["staleness"] for row in found if row["applied"])
    total = sum(counts.values())
    return {
        "updates": max(row["update"] for row in found),
        "staleness": {
            "histogram": {str(value): counts[value] for value in sorted(counts)},
            "mean": sum(value * count for value, count in counts.items()) / total if total else None,
            "max": max(counts, default=None),
            "dropped": sum(not row["applied"] for row in found),
        },
    }


def of_worker(worker: int, found: list[Row]) -> dict[str, Any]:
    """Of one worker's pushes."""
    own = [row for row in found if row["worker"] == worker]
    if not own:
        return {"dropped": None, "staleness": None}
    applied = [row["staleness"] for row in own if row["applied"]]
    return {"dropped": len(own) - len(applied), "staleness": sum(applied) / len(applied) if applied else None}
