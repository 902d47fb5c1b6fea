"""Every strategy on VGG-11, 2 and 4 local workers, in turns in the same processes: step time as a ratio to ddp.

    python benchmarks/strategies.py [--rounds 6] [--steps 6] [--batch-size 64] [--workers 2,4]

Goals: bucketed at most 1.03 of ddp. About 6 minutes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.record import rank_rows
from gradsync.strategies import STRATEGIES

NAMES = [name for name in STRATEGIES if name != "local"]
SKIPPED = 1  # the first step warms up


def measure(workers: int, rounds: int, steps: int, batch_size: int, out: str) -> None:
    # Every strategy gets every place in a round, so that a machine getting slower favours none.
    order = [NAMES[(place + round_) % len(NAMES)] for round_ in range(rounds) for place in range(len(NAMES))]
    base = {"workers": workers, "threads": 1, "steps": steps, "batch_size": batch_size, "buffers": "local"}
    configs = [RunConfig(**base, strategy=name, eval=False, out=out) for name in order]
    seconds: dict[str, list[float]] = {name: [] for name in NAMES}
    medians: dict[str, list[float]] = {name: [] for name in NAMES}
    for run in launch.run_in_turn(configs):
        found = [
            row["seconds"]
            for rows in rank_rows(run.folder, workers)
            for row in rows
            if row["kind"] == "step" and row["step"] > SKIPPED
        ]
        seconds[run.config["strategy"]] += found
        medians[run.config["strategy"]].append(statistics.median(found))
    base_median = statistics.median(seconds["ddp"])
    for name in NAMES:
        by_round = [a / b for a, b in zip(medians[name], medians["ddp"], strict=True)]
        print(
            f"{workers} workers, {name:16} {statistics.median(seconds[name]):.3f} s a step, "
            f"{statistics.median(seconds[name]) / base_median:.3f} of ddp, "
            f"rounds from {min(by_round):.2f} to {max(by_round):.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", default="2,4")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as out:
        for workers in map(int, asked.workers.split(",")):
            measure(workers, asked.rounds, asked.steps, asked.batch_size, out)


if __name__ == "__main__":
    main()
