"""Runs as charts: what a step is made of, how loss fell, what each rank does in a step, what passes its link."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from gradsync.exhibit import Axis, Chart
from gradsync.meter.ledger import HIDDEN, PARTS, Step, arrival, last_arrivals, part_of
from gradsync.meter.timeline import whole_steps
from gradsync.record import Row, rank_file, rank_rows, read_rows
from gradsync.report.collect import Shown
from gradsync.summary import FIRST, LAST

Mark = dict[str, str | int | float | None]

MOST_LINES = 10  # in one chart
MOST_POINTS = 120  # of one line
SHORTEST_SPAN = 1 / 2000  # of a step: what is shorter cannot be seen


def step_parts(items: Sequence[Shown]) -> list[Chart]:
    """One bar per run: the ledger stacked up to the time of a step."""
    rows: list[Mark] = [
        {"run": item.name, "part": part, "ms": item.figures["ledger"][part] * 1e3}
        for item in items
        if item.measured
        for part in PARTS
    ]
    if not rows:
        return []
    notes = ["Mean of steps 2 to 40 and of all ranks; wait: for the last rank to arrive; wire: from then on."]
    x, y = Axis("run", "run"), Axis("ms", "time of a step", "ms")
    return [Chart("Time of a step, and where it went", "stack", rows, x, y, "part", notes=notes)]


def computing(items: Sequence[Shown]) -> list[Chart]:
    """Computing against communicating."""
    rows: list[Mark] = []
    for item in items:
        if not item.measured or item.figures["strategy"] == "local":
            continue
        ledger = item.figures["ledger"]
        parts = {
            "compute": sum(ledger[name] for name in ("copy", "forward", "backward", "optimizer")),
            "communication": ledger["wait"] + ledger["wire"],
            "other": ledger["data"] + ledger["other"],
            "hidden communication": item.figures[HIDDEN],
        }
        rows += [{"run": item.name, "part": part, "ms": value * 1e3} for part, value in parts.items()]
    if not rows:
        return []
    notes = ["Hidden communication runs while the rank computes: it takes no time of its own."]
    x, y = Axis("run", "run"), Axis("ms", "time in a step", "ms")
    return [Chart("Computing against communicating", "bars", rows, x, y, "part", notes=notes)]


def loss_curves(items: Sequence[Shown]) -> list[Chart]:
    """Rank 0's loss, averaged over neighbours where there are many steps."""
    rows: list[Mark] = []
    for item in items:
        losses = [
            (row["step"], row["loss"]) for row in read_rows(rank_file(item.run.folder, 0)) if row["kind"] == "step"
        ]
        width = -(-len(losses) // MOST_POINTS) or 1
        for begin in range(0, len(losses), width):
            group = losses[begin : begin + width]
            if all(loss is not None for _, loss in group):
                mean = statistics.fmean(loss for _, loss in group)
                rows.append({"step": group[-1][0], "loss": mean, "run": item.name})
    if len({row["step"] for row in rows}) < 2:
        return []
    notes = ["Of rank 0, before each update; where there are many steps, a point is the mean of neighbours."]
    x, y = Axis("step", "step"), Axis("loss", "training loss", zero=False)
    return [Chart("Training loss", "lines", rows, x, y, "run", notes=notes)]


def accuracy_curves(items: Sequence[Shown]) -> list[Chart]:
    """After every epoch; where ranks test a share each, their shares together."""
    rows: list[Mark] = []
    for item in items:
        tests: dict[int, list[Row]] = {}
        for rank in item.figures["ranks"]:
            for row in read_rows(rank_file(item.run.folder, rank["rank"])):
                if row["kind"] == "test" and (rank["rank"] == 0 or not row["whole"]):
                    tests.setdefault(row["epoch"], []).append(row)
        rows += [
            {
                "epoch": epoch,
                "accuracy": 100 * sum(row["correct"] for row in each) / sum(row["count"] for row in each),
                "run": item.name,
            }
            for epoch, each in sorted(tests.items())
            if sum(row["count"] for row in each)
        ]
    if len({row["epoch"] for row in rows}) < 2:
        return []
    x, y = Axis("epoch", "epoch"), Axis("accuracy", "accuracy", "%", zero=False)
    return [Chart("Test accuracy", "lines", rows, x, y, "run")]


def one_step(item: Shown) -> list[Chart]:
    """Who computes, waits and sends in a step of middling length."""
    ranks = rank_rows(item.run.folder, len(item.figures["ranks"]), stamps_until=LAST)
    steps = whole_steps(ranks, FIRST, LAST)
    if not steps:
        return []
    chosen = sorted(steps, key=length)[len(steps) // 2]
    begin, shortest = min(step.begin for step in chosen), SHORTEST_SPAN * length(chosen)
    arrivals = last_arrivals(chosen)
    rows: list[Mark] = [
        {"rank": lane, "part": part, "from": (start - begin) * 1e3, "to": (end - begin) * 1e3}
        for rank, step in enumerate(chosen)
        for lane, part, start, end in spans(f"rank {rank}", step, arrivals)
        if end - start >= shortest
    ]
    title = f"One step of {item.name}: who computes, waits and sends"
    background = any(str(row["rank"]).endswith(BEHIND) for row in rows)
    notes = ["Behind: messages that travel while the rank computes."] if background else []
    x, y = Axis("from", "time since the step began", "ms"), Axis("rank", "rank")
    return [Chart(title, "spans", rows, x, y, "part", until="to", notes=notes)]


BEHIND = ", behind"


def length(step: Sequence[Step]) -> float:
    return max(each.end for each in step) - min(each.begin for each in step)


def spans(lane: str, step: Step, arrivals: dict[int, float]) -> Iterator[tuple[str, str, float, float]]:
    """Phases, in them the collectives the rank waited in, and on a lane of their own those it did not wait for."""
    blocking = [item for item in step.collectives if not item.overlapped]
    for name, start, end in step.phases:
        for item in blocking:
            if start <= item.start < end:
                yield lane, part_of(name), start, item.start
                there = min(max(arrival(item, arrivals), item.start), item.end)
                yield lane, "wait", item.start, there
                yield lane, "wire", there, item.end
                start = item.end
        yield lane, "wait" if name == "drain" else part_of(name), start, end
    for item in step.collectives:
        if item.overlapped:
            there = min(max(arrival(item, arrivals), item.start), item.end)
            yield f"{lane}{BEHIND}", "wait", item.start, there
            yield f"{lane}{BEHIND}", "wire", there, item.end
