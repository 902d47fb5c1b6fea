"""Bytes and the host, rank by rank: what was counted against the closed form of the strategy."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.exhibit.columns import cell_so_far, column
from gradsync.exhibit.form import Column, Section, Table
from gradsync.exhibit.runs.subjects import Subject
from gradsync.figures.catalogue.of_host import CPU, GPU_MEMORY, GPU_USE, MEMORY, WITHOUT_CORE
from gradsync.figures.catalogue.of_traffic import (
    CLOSED_FORM,
    OVERHEAD,
    PAYLOAD_STEP,
    RECEIVED_STEP,
    SENT_STEP,
    counters,
    payload_bytes,
)
from gradsync.figures.figure import Figure, everyone
from gradsync.figures.value import Value
from gradsync.record import RankSummary
from gradsync.text import size_text

SMALLEST_SHOWN = 500  # bytes, a step
MOST_ROWS = 32
FEW_RANKS = 2  # of each run, where all of them would be too many rows

RankRow = tuple[Subject, RankSummary]


def traffic_sections(subjects: Sequence[Subject]) -> list[Section]:
    """For runs that were measured; a terminal shows these details when asked."""
    measured = [item for item in subjects if item.measured]
    found = []
    rows, left_out = ranks_of([item for item in measured if len(item.figures.ranks) > 1 or item.figures.servers])
    if rows:
        found.append(Section("Bytes against the closed form", [bytes_table(rows)], left_out, detail=True))
    rows, left_out = ranks_of(measured)
    if rows:
        found.append(Section("The host", [host_table(rows)], left_out, detail=True))
    return found


def ranks_of(subjects: Sequence[Subject]) -> tuple[list[RankRow], list[str]]:
    """Workers and servers of all runs; if these are too many, the first two of each, and a sentence that says so."""
    found = [(item, rank) for item in subjects for rank in everyone(item.figures)]
    if len(found) <= MOST_ROWS:
        return found, []
    first = [(item, rank) for item in subjects for rank in item.figures.ranks[:FEW_RANKS]]
    return first, [f"Ranks 0 and 1 of each run are shown; {len(found) - len(first)} others are left out."]


def bytes_table(rows: Sequence[RankRow]) -> Table:
    kinds = [
        kind
        for kind in PAYLOAD_STEP
        if any(payload_bytes(rank).get(kind, 0) >= SMALLEST_SHOWN * rank.steps > 0 for _, rank in rows)
    ]
    figures = [*(PAYLOAD_STEP[kind] for kind in kinds), SENT_STEP, CLOSED_FORM, RECEIVED_STEP, OVERHEAD]
    ranks = [rank for _, rank in rows]
    source = counters(ranks)
    handed_over = f"{', '.join(kinds)}: payload handed to collectives{setup(ranks)}." if kinds else "No messages."
    counted = (
        f"sent, received: counted by the kernel ({source}){per_push(ranks)}." if source else "Bytes were not counted."
    )
    notes = [
        handed_over,
        counted,
        "closed form: bytes sent, by formula; overhead: bytes counted beyond it, in both directions.",
    ]
    return rank_table("Bytes of a step", rows, figures, notes)


def host_table(rows: Sequence[RankRow]) -> Table:
    figures: list[Figure] = [CPU, WITHOUT_CORE, MEMORY]
    if any(rank.gpu_peak_memory_bytes is not None for _, rank in rows):
        figures += [GPU_USE, GPU_MEMORY]
    notes = ["; ".join(figure.note for figure in figures) + "."]
    return rank_table("The host, rank by rank", rows, figures, notes)


def rank_table(title: str, rows: Sequence[RankRow], figures: Sequence[Figure], notes: Sequence[str]) -> Table:
    cells = [
        [*row_names(item, rank), *(cell_so_far(item.case, figure, rank.rank) for figure in figures)]
        for item, rank in rows
    ]
    return Table(title, [*naming(), *map(column, figures)], cells, notes)


def naming() -> list[Column]:
    return [Column("run"), Column("rank"), Column("node")]


def row_names(item: Subject, rank: RankSummary) -> list[Value]:
    role = "server" if rank.role == "server" else "rank"
    several = len({other.node for other in item.figures.ranks}) > 1
    return [item.name, f"{role} {rank.rank}", rank.node if several else None]


def setup(ranks: Sequence[RankSummary]) -> str:
    """The payload sent once before training, of the first rank that has any."""
    found = next((sent for rank in ranks if (sent := payload_bytes(rank, "setup"))), {})
    parts = [f"{kind} {size_text(count)}" for kind, count in found.items() if count >= SMALLEST_SHOWN]
    return f" (before the first step: {', '.join(parts)})" if parts else ""


def per_push(ranks: Sequence[RankSummary]) -> str:
    return ", for a server per gradient it received" if any(rank.role == "server" for rank in ranks) else ""
