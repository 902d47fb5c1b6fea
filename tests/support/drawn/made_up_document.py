"""A document with every kind of chart, and with text that would be markup anywhere else."""

from __future__ import annotations

from gradsync.draw.colours import PARTS
from gradsync.exhibit.form import IDEAL, OURS, PUBLISHED, Axis, Chart, Column, Document, Section, Table
from gradsync.figures.value import Spread

STRATEGIES = ["local", "gather-scatter", "reduce-broadcast", "all-reduce", "ring", "bucketed", "ddp"]

STACK = Chart(
    "Where the time of a step went",
    "stack",
    [{"strategy": name, "part": part, "ms": 3.5} for name in STRATEGIES for part in reversed(PARTS)],
    Axis("strategy", "strategy"),
    Axis("ms", "time of a step", "ms"),
    "part",
    notes=["wait: for the last rank to arrive; wire: from then on."],
)
LINES = Chart(
    "Strong scaling: speed-up against one worker",
    "lines",
    [
        *({"workers": n, "speed-up": n**0.9, "series": "ring", "spread": 0.1} for n in (1, 2, 4, 8)),
        {"workers": 16, "speed-up": None, "series": "ring", "spread": None},
        *({"workers": n, "speed-up": float(n), "series": IDEAL, "spread": None} for n in (1, 8)),
        *({"workers": n, "speed-up": n**0.8, "series": "Amdahl (ring)", "spread": None} for n in range(1, 9)),
    ],
    Axis("workers", "workers"),
    Axis("speed-up", "speed-up", "×"),
    "series",
    deviation="spread",
)
PANELS = Chart(
    "Time by batch size",
    "lines",
    [
        {"size": size, "seconds": 9e6 / size * pace, "strategy": name, "workers": workers}
        for size in (16, 64, 1024)
        for name, pace in (("ps-sync", 1.0), ("ps-async", 0.7))
        for workers in (1, 2, 4)
    ],
    Axis("size", "batch size", log=True, zero=False),
    Axis("seconds", "time", "s", log=True),
    "strategy",
    "workers",
)
BARS = Chart(
    "Published against ours",
    "bars",
    [
        {"workers": n, "seconds": seconds / n, "whose": whose}
        for n in (1, 2, 4)
        for whose, seconds in ((PUBLISHED, 1890.0), (OURS, 226.5))
    ],
    Axis("workers", "workers"),
    Axis("seconds", "epoch", "s"),
    "whose",
)
BAR_PANELS = Chart(
    "When each worker finished",
    "bars",
    [
        {"worker": f"worker {n}", "seconds": 10 + n, "strategy": name, "panel": f"batch {size}"}
        for n in (0, 1)
        for name in ("ps-sync", "ps-async")
        for size in (32, 64)
    ],
    Axis("worker", "worker"),
    Axis("seconds", "finished", "s"),
    "strategy",
    "panel",
)
LYING = Chart(
    "Samples per second <with> long & odd names",
    "bars",
    [
        {"setting": f"learning rate 0.{n}, momentum 0.9, </script>", "rate": n * 123_456, "spread": 999.0}
        for n in range(1, 6)
    ],
    Axis("setting", "setting"),
    Axis("rate", "samples", "1/s"),
    deviation="spread",
)
POINTS = Chart(
    "Accuracy against seconds",
    "points",
    [{"name": f"{name} × 4", "accuracy": 70 + n, "s": 20 * n + 5} for n, name in enumerate(STRATEGIES)],
    Axis("s", "training", "s"),
    Axis("accuracy", "accuracy", "%", zero=False),
    "name",
)
SPANS = Chart(
    "One step of two ranks",
    "spans",
    [
        {"rank": f"rank {rank}", "from": begin + rank, "to": begin + 10, "part": part}
        for rank in (0, 1)
        for begin, part in ((0, "data"), (10, "forward"), (20, "backward"))
    ],
    Axis("from", "time", "ms"),
    Axis("rank", "rank"),
    "part",
    until="to",
)
CHARTS = [STACK, LINES, PANELS, BARS, BAR_PANELS, LYING, POINTS, SPANS]

TABLE = Table(
    "Scaling, 100 % of it_all",
    [Column("strategy"), Column("workers"), Column("step", "s"), Column("speed-up", "×", ".2f"), Column("never")],
    [
        ["all_reduce & <co>", 1, Spread(0.5123456789, 0.01), None, None],
        ["a | b", 1234, 0.25, 1.8, None],
    ],
    ["50 % of the time; 3 × faster ± 1."],
)
ENVIRONMENT = Table("Environment", [Column("what"), Column("value")], [["python", "3.11"], ["nodes", 2]])

DOCUMENT = Document(
    "Report of 3 runs: </script> & <b>others</b>",
    ["ring is the fastest: 3.4 × one worker.", "All ranks hold the same bits."],
    [
        Section("Time", [STACK, SPANS], ["ring communicates 12% of the time."]),
        Section("Scaling", [TABLE, LINES, PANELS]),
        Section("Time", [BARS, BAR_PANELS, LYING]),
        Section("Trade-offs", [POINTS]),
        Section("Nothing yet"),
    ],
    "gradsync report runs/first-one-with-a-long-name runs/second-one-with-a-long-name --out report.html",
    ENVIRONMENT,
    ["runs/third: unfinished."],
)
