"""What crosses a rank's link over time, from the host samples of its record."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.exhibit.form import Axis, Chart, Mark
from gradsync.figures.figure import UNITS
from gradsync.ledger.rates import rates
from gradsync.ledger.timeline import timeline_of
from gradsync.record import Run, rank_records


def network(
    named: Sequence[tuple[str, Run]], ranks: Sequence[int] | None = None, title: str = "", notes: Sequence[str] = ()
) -> list[Chart]:
    """What each rank sends, a panel per run; ``ranks``: only these."""
    rows: list[Mark] = []
    for name, run in named:
        everyone = rank_records(run.folder, len(run.summary.ranks) if run.summary else 0, stamps_until=0)
        clock = timeline_of(everyone)
        first = [(rank, each.hosts[0]["time"]) for rank, each in enumerate(everyone) if each.hosts]
        begin = min((clock.shared(rank, time) for rank, time in first), default=0.0)
        for rank, each in enumerate(everyone):
            if ranks is not None and rank not in ranks:
                continue
            for time, sent in rates(each.hosts, each.steps, "sent_bytes"):
                at = clock.shared(rank, time) - begin
                rows.append({"time": at, "sent": sent * UNITS["MB/s"], "rank": f"rank {rank}", "run": name})
    if not any(row["sent"] for row in rows):
        return []
    x, y = Axis("time", "time since training began", "s"), Axis("sent", "sent", "MB/s")
    told = ["As counted by the kernel, averaged over a second or a step, whichever is longer.", *notes]
    return [Chart(title or "Network: what each rank sends", "lines", rows, x, y, "rank", "run", notes=told)]
