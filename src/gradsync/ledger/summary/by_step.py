"""The steps of a run one by one, on every rank: when its parts were measured, how long each took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gradsync.ledger.parts import HIDDEN, Ledger, ledgers
from gradsync.ledger.timeline import timeline_of
from gradsync.record import RankRecord
from gradsync.record.rows import StepRow
from gradsync.record.summaries import PARTS

OF_ROW = ("loss", "samples", "correct", "update")


def rows_by_step(ranks: Sequence[RankRecord]) -> Iterator[dict[str, Any]]:
    """A row for each rank and step: what was recorded, then the seconds of each part of the ledger.

    Only what is there is in a row: a run that was not measured has no parts, a task without a loss no loss.
    """
    parts = ledgers_by_step(ranks)
    for rank, record in enumerate(ranks):
        for row in record.steps:
            ledger = parts.get((rank, row["step"]), {})
            yield {
                **{"rank": rank, "step": row["step"], "epoch": row["epoch"], "seconds": row["seconds"]},
                **{name: ledger[name] for name in (*PARTS, HIDDEN) if name in ledger},
                **{name: row[name] for name in OF_ROW if name in row},  # type: ignore[literal-required]
                **(row.get("metrics") or {}),
                **bytes_of(row),
            }


def ledgers_by_step(ranks: Sequence[RankRecord]) -> dict[tuple[int, int], Ledger]:
    """(rank, step) -> ledger, of the steps that all ranks have made: only then is it known who waited for whom."""
    timeline = timeline_of(ranks)
    found: dict[tuple[int, int], Ledger] = {}
    for rank, record in enumerate(ranks):
        for row in record.steps:
            if step := timeline.add(rank, row):
                found |= {(number, row["step"]): ledger for number, ledger in enumerate(ledgers(step))}
    return found


def bytes_of(row: StepRow) -> dict[str, float]:
    """The payload of the messages of this step."""
    if "payload" not in row:
        return {}
    sent, received = (sum(pair[way] for pair in row["payload"].values()) for way in (0, 1))
    return {"sent_bytes": sent, "received_bytes": received}
