"""A run as a trace in the Trace Event Format, which Perfetto and chrome://tracing open. Arithmetic only.

A process per rank. Its training thread: steps, in them phases, in them the collectives the thread waited in. Beside
it lanes for collectives that ran while it computed. Each collective is split into wait and wire, and an arrow leads
from the last rank to arrive to those who waited for it. Host samples are counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradsync.meter.figures import rate
from gradsync.meter.ledger import Collective, Step, arrival, last_arrivals
from gradsync.meter.timeline import Timeline, timeline_of, whole_steps
from gradsync.record import Row

Event = dict[str, Any]
TRAINING = 0  # lane of the training thread; those of collectives in the background follow
LANES = 1000  # thread ids kept for one rank
SHORTEST_ARROW = 1e-4  # seconds of waiting below which no arrow is drawn
AFTER = 1.5  # seconds of host samples after the last step shown
SHOWN_PHASES = {"drain": "wait for buckets"}


def trace(ranks: list[list[Row]], last_step: int | None = None) -> dict[str, Any]:
    """The whole file as JSON, up to ``last_step``. Times in microseconds from the first event on."""
    ranks = [rows for rows in ranks if not any(row.get("role") == "server" for row in rows)]  # these have no steps
    steps = whole_steps(ranks, last=last_step)
    clock = timeline_of(ranks)
    end = max((step.end for step in steps[-1]), default=0.0) + AFTER if steps else 0.0
    events = [
        *names(ranks, steps),
        *(event for number, step in enumerate(steps, 1) for event in step_events(number, step)),
        *(event for rank, rows in enumerate(ranks) for event in counters(rank, rows, clock) if event["ts"] <= end),
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


def names(ranks: list[list[Row]], steps: list[list[Step]]) -> Iterator[Event]:
    for rank, rows in enumerate(ranks):
        start = next((row for row in rows if row["kind"] == "start"), {})
        name = f"rank {rank} on {start.get('node', '?')}"
        yield {"ph": "M", "name": "process_name", **place(rank), "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", **place(rank), "args": {"sort_index": rank}}
        lanes = {lane for step in steps for lane in lane_of(step[rank]).values()} | {TRAINING}
        for lane in sorted(lanes):
            name = "training" if lane == TRAINING else f"communication {lane}"
            yield {"ph": "M", "name": "thread_name", **place(rank, lane), "args": {"name": name}}


def place(rank: int, lane: int = TRAINING) -> Event:
    """Process and thread. To Perfetto 0 is the idle task, and a thread id the same thread in every process."""
    return {"pid": rank + 1, "tid": (rank + 1) * LANES + lane}


def lane_of(step: Step) -> dict[int | None, int]:
    """Collective number -> thread id: those that overlap in time get lanes of their own."""
    lanes: dict[int | None, int] = {}
    free_from: list[float] = []
    for item in step.collectives:
        if not item.overlapped:
            lanes[item.number] = TRAINING
            continue
        lane = next((index for index, free in enumerate(free_from) if free <= item.start), len(free_from))
        free_from[lane : lane + 1] = [item.end]
        lanes[item.number] = TRAINING + 1 + lane
    return lanes


def step_events(number: int, ranks: list[Step]) -> Iterator[Event]:
    arrivals = last_arrivals(ranks)
    lanes = [lane_of(step) for step in ranks]
    for rank, step in enumerate(ranks):
        yield span(rank, TRAINING, f"step {number}", "step", step.begin, step.end)
        for name, start, end in step.phases:
            yield span(rank, TRAINING, SHOWN_PHASES.get(name, name), "phase", start, end)
        for item in step.collectives:
            yield from collective_events(rank, lanes[rank].get(item.number, TRAINING), item, arrival(item, arrivals))
    yield from arrows(ranks, lanes, arrivals)


def span(rank: int, lane: int, name: str, category: str, start: float, end: float, **args: Any) -> Event:
    event = {"ph": "X", **place(rank, lane), "name": name, "cat": category, "ts": start, "end": end}
    return event | ({"args": args} if args else {})


def collective_events(rank: int, lane: int, item: Collective, all_there: float) -> Iterator[Event]:
    arrived = min(all_there, item.end)
    facts = {"kind": item.kind, "sent_bytes": item.sent, "received_bytes": item.received, "number": item.number}
    yield span(rank, lane, item.operation, "collective", item.start, item.end, **facts)
    if arrived > item.start:
        yield span(rank, lane, "wait", "wait", item.start, arrived)
    if item.end > arrived:
        yield span(rank, lane, "wire", "wire", arrived, item.end)


def arrows(ranks: list[Step], lanes: list[dict[int | None, int]], arrivals: dict[int, float]) -> Iterator[Event]:
    """From the last rank's arrival to the end of each other rank's waiting."""
    by_number = [{item.number: item for item in step.collectives} for step in ranks]
    for number, last in arrivals.items():
        present = [rank for rank in range(len(ranks)) if number in by_number[rank]]
        late = max(present, key=lambda rank: by_number[rank][number].start)
        for rank in present:
            item = by_number[rank][number]
            if rank == late or item.end < last or last - item.start < SHORTEST_ARROW:
                continue  # a sender may have handed over and gone before the last one came
            both = {"cat": "arrival", "name": "last to arrive", "id": number * len(ranks) + rank}
            yield {"ph": "s", **place(late, lanes[late][number]), "ts": last, **both}
            # bp e: it ends in the slice around it, not in the next one
            yield {"ph": "f", "bp": "e", **place(rank, lanes[rank][number]), "ts": last, **both}


def counters(rank: int, rows: list[Row], clock: Timeline) -> Iterator[Event]:
    before: Row | None = None
    for row in rows:
        if row["kind"] != "host":
            continue
        row = row | {"time": row["time"] - clock.offset(rank, row["time"])}
        yield counter(rank, row, "memory", "MB", row["memory_bytes"] / 1e6)
        if before and (cpu := rate(before, row, "cpu_seconds")) is not None:
            yield counter(rank, row, "CPU", "%", cpu * 100)
        if before and (sent := rate(before, row, "sent_bytes")) is not None:
            yield counter(rank, row, "sent", "MB/s", sent / 1e6)
        before = row


def counter(rank: int, row: Row, name: str, unit: str, value: float) -> Event:
    return {"ph": "C", **place(rank), "name": name, "ts": row["time"], "args": {unit: round(value, 3)}}
