"""A run as a trace in the Trace Event Format, which Perfetto and chrome://tracing open. Arithmetic only.

Each rank is a process. Its training thread has steps, in them phases, in them the collectives the thread waited in.
Collectives that ran while it computed have lanes of their own. The time of each collective, and the time in which
backward waited for those in the background, is split into wait and wire as in the ledger, and an arrow leads from the
last rank to arrive to those that waited for it. Host samples are counters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gradsync.ledger.rates import rates
from gradsync.ledger.spans import TRAINING, lanes, spans
from gradsync.ledger.stamps import Step, arrivals
from gradsync.ledger.timeline import Timeline, timeline_of, whole_steps
from gradsync.record import RankRecord

Event = dict[str, Any]
LANES = 1000  # thread ids kept for one rank
SHORTEST_ARROW = 1e-4  # seconds of waiting below which no arrow is drawn
AFTER = 1.5  # seconds of host samples after the last step shown
SHOWN_PHASES = {"drain": "wait for buckets"}
RATES = (("CPU", "cpu_seconds", "%", 100), ("sent", "sent_bytes", "MB/s", 1e-6))


def trace(everyone: Sequence[RankRecord], last_step: int | None = None) -> dict[str, Any]:
    """The whole file as JSON, up to ``last_step``. Times in microseconds from the first event on."""
    ranks = [record for record in everyone if not (record.start and record.start["role"] == "server")]
    steps = whole_steps(ranks, last=last_step)
    clock = timeline_of(ranks)
    end = max((step.end for step in steps[-1]), default=0.0) + AFTER if steps else 0.0
    events = [
        *names(ranks, steps),
        *(event for number, step in enumerate(steps, 1) for event in step_events(number, step)),
        *(
            event
            for rank, record in enumerate(ranks)
            for event in counters(rank, record, clock)
            if event["ts"] <= end
        ),
    ]
    zero = min((event["ts"] for event in events if "ts" in event), default=0.0)
    # Whole microseconds, as the stamps are: Perfetto drops a span that ends a nanosecond after the one around it,
    # and one that begins where an empty one stands.
    for event in events:
        if "ts" in event:
            event["ts"] = round((event["ts"] - zero) * 1e6)
        if "end" in event:
            event["dur"] = max(0, round((event.pop("end") - zero) * 1e6) - event["ts"])
    return {"traceEvents": [event for event in events if event.get("dur") != 0], "displayTimeUnit": "ms"}


def names(ranks: Sequence[RankRecord], steps: Sequence[Sequence[Step]]) -> Iterator[Event]:
    for rank, record in enumerate(ranks):
        name = f"rank {rank} on {record.start['node'] if record.start else '?'}"
        yield {"ph": "M", "name": "process_name", **place(rank), "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", **place(rank), "args": {"sort_index": rank}}
        for lane in sorted({lane for step in steps for lane in lanes(step[rank])} | {TRAINING}):
            name = "training" if lane == TRAINING else f"communication {lane}"
            yield {"ph": "M", "name": "thread_name", **place(rank, lane), "args": {"name": name}}


def place(rank: int, lane: int = TRAINING) -> Event:
    """Process and thread. Perfetto takes 0 for the idle task, and a thread id for one thread in every process."""
    return {"pid": rank + 1, "tid": (rank + 1) * LANES + lane}


def step_events(number: int, ranks: Sequence[Step]) -> Iterator[Event]:
    for rank, step in enumerate(ranks):
        yield span(rank, TRAINING, f"step {number}", "step", step.begin, step.end)
        for name, start, end in step.phases:
            yield span(rank, TRAINING, SHOWN_PHASES.get(name, name), "phase", start, end)
        for item, lane in zip(step.collectives, lanes(step), strict=True):
            facts = {"kind": item.kind, "sent_bytes": item.sent, "received_bytes": item.received}
            yield span(rank, lane, item.operation, "collective", item.start, item.end, **facts, number=item.number)
    for rank, lane, part, start, end in spans(ranks):
        if part in ("wait", "wire"):
            yield span(rank, lane, part, part, start, end)
    yield from arrows(ranks)


def span(rank: int, lane: int, name: str, category: str, start: float, end: float, **args: Any) -> Event:
    event = {"ph": "X", **place(rank, lane), "name": name, "cat": category, "ts": start, "end": end}
    return event | ({"args": args} if args else {})


def arrows(ranks: Sequence[Step]) -> Iterator[Event]:
    """From the arrival of the last rank a collective depends on to the end of the waiting for it."""
    for rank, (step, there) in enumerate(zip(ranks, arrivals(ranks), strict=True)):
        for item, arrival, lane in zip(step.collectives, there, lanes(step), strict=True):
            if arrival.rank == rank or arrival.time > item.end or arrival.time - item.start < SHORTEST_ARROW:
                continue
            late = ranks[arrival.rank]
            from_lane = next(
                lane for other, lane in zip(late.collectives, lanes(late), strict=True) if other.number == item.number
            )
            both = {"cat": "arrival", "name": "last to arrive", "id": (item.number or 0) * len(ranks) + rank}
            yield {"ph": "s", **place(arrival.rank, from_lane), "ts": arrival.time, **both}
            # bp e: it ends in the slice around it, not in the next one
            yield {"ph": "f", "bp": "e", **place(rank, lane), "ts": arrival.time, **both}


def counters(rank: int, record: RankRecord, clock: Timeline) -> Iterator[Event]:
    for row in record.hosts:
        yield counter(rank, clock.shared(rank, row["time"]), "memory", "MB", row["memory_bytes"] / 1e6)
    for name, count, unit, factor in RATES:
        for time, growth in rates(record.hosts, record.steps, count):
            yield counter(rank, clock.shared(rank, time), name, unit, growth * factor)


def counter(rank: int, time: float, name: str, unit: str, value: float) -> Event:
    return {"ph": "C", **place(rank), "name": name, "ts": time, "args": {unit: round(value, 3)}}
