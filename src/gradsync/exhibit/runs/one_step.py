"""One step of a run, rank by rank: who computes, waits and sends."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.exhibit.form import Axis, Chart, Mark
from gradsync.exhibit.runs.subjects import Subject, of_first
from gradsync.ledger.spans import spans
from gradsync.ledger.stamps import Step
from gradsync.ledger.timeline import whole_steps
from gradsync.record import rank_records

SHORTEST_SPAN = 1 / 2000  # of a step: a shorter span would be invisible
BACKGROUND = ", background"


def one_step(item: Subject) -> list[Chart]:
    """The step of median length."""
    first, last = item.figures.window_first or 1, item.figures.window_last
    ranks = rank_records(item.run.folder, len(item.figures.ranks), stamps_until=last)
    steps = whole_steps(ranks, first, last)
    if not steps:
        return []
    chosen = sorted(steps, key=length)[len(steps) // 2]
    begin, shortest = min(step.begin for step in chosen), SHORTEST_SPAN * length(chosen)
    rows: list[Mark] = [
        {
            "rank": f"rank {span.rank}{BACKGROUND if span.background else ''}",
            "part": span.part,
            "from": (span.start - begin) * 1e3,
            "to": (span.end - begin) * 1e3,
        }
        for span in spans(chosen)
        if span.end - span.start >= shortest
    ]
    background = any(str(row["rank"]).endswith(BACKGROUND) for row in rows)
    notes = ["Background: messages in flight while the rank computes."] if background else []
    notes += of_first([item])
    x, y = Axis("from", "time since the step began", "ms"), Axis("rank", "rank")
    title = f"One step of {item.name}: who computes, waits and sends"
    return [Chart(title, "spans", rows, x, y, "part", until="to", notes=notes)]


def length(step: Sequence[Step]) -> float:
    return max(each.end for each in step) - min(each.begin for each in step)
