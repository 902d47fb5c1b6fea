"""What parameter servers did with the gradients that were pushed to them. Arithmetic only.

A push has staleness s if s updates were applied between the moment its worker read the parameters and the moment its
gradient arrived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gradsync.record import RankRecord
from gradsync.record.rows import PushRow
from gradsync.record.summaries import Staleness


def pushes(ranks: Iterable[RankRecord]) -> list[PushRow]:
    """The pushes to the first server: every gradient goes to all servers, each taking its shard."""
    return next((record.pushes for record in ranks if record.pushes), [])


def updates(found: Sequence[PushRow]) -> int | None:
    """Updates of the parameters; None without servers."""
    return max((row["update"] for row in found), default=None)


def staleness(found: Sequence[PushRow]) -> Staleness | None:
    """Staleness of the applied gradients, and how many were dropped."""
    if not found:
        return None
    counts = Counter(row["staleness"] for row in found if row["applied"])
    total = sum(counts.values())
    return Staleness(
        histogram={str(value): counts[value] for value in sorted(counts)},
        mean=sum(value * count for value, count in counts.items()) / total if total else None,
        max=max(counts, default=None),
        dropped=sum(not row["applied"] for row in found),
    )


def of_worker(worker: int, found: Sequence[PushRow]) -> tuple[int | None, float | None]:
    """Of one worker's pushes: how many were dropped, and how stale the others were on average."""
    own = [row for row in found if row["worker"] == worker]
    if not own:
        return None, None
    applied = [row["staleness"] for row in own if row["applied"]]
    return len(own) - len(applied), sum(applied) / len(applied) if applied else None
