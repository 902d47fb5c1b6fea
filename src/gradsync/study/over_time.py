"""What passes a rank's link over time, from the host samples of its record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gradsync.exhibit import Axis, Chart
from gradsync.meter.figures import rate
from gradsync.meter.timeline import timeline_of
from gradsync.record import Run, rank_rows

SHORTEST = 0.5  # seconds between samples: the last two may be milliseconds apart, which gives no rate


def network(
    named: Sequence[tuple[str, Run]], ranks: Sequence[int] | None = None, title: str = "", notes: Sequence[str] = ()
) -> list[Chart]:
    """What each rank sends, a panel per run; ``ranks``: these alone."""
    rows: list[dict[str, str | int | float | None]] = []
    for name, run in named:
        everyone = rank_rows(run.folder, len((run.summary or {}).get("ranks", [])), stamps_until=0)
        clock = timeline_of(everyone)
        hosts = [[row for row in each if row["kind"] == "host"] for each in everyone]
        first = [(rank, each[0]["time"]) for rank, each in enumerate(hosts) if each]
        begin = min((time - clock.offset(rank, time) for rank, time in first), default=0.0)
        for rank, each in enumerate(hosts):
            if ranks is not None and rank not in ranks:
                continue
            for before, after in pairwise(each):
                sent = rate(before, after, "sent_bytes")
                if sent is not None and after["time"] - before["time"] >= SHORTEST:
                    time = after["time"] - clock.offset(rank, after["time"]) - begin
                    rows.append({"time": time, "sent": sent / 1e6, "rank": f"rank {rank}", "run": name})
    if not any(row["sent"] for row in rows):
        return []
    x, y = Axis("time", "time since training began", "s"), Axis("sent", "sent", "MB/s")
    told = ["As the kernel counted, once a second: from one sample to the next.", *notes]
    return [Chart(title or "Network: what each rank sends", "lines", rows, x, y, "rank", "run", notes=told)]
