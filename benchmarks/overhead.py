"""What gradsync costs against a bare DDP script, and what its measuring costs; 2 workers.

    python benchmarks/overhead.py [--rounds 10] [--steps 16] [--pairs 30] [--batch-size 64]

1. Measured and unmeasured runs of 8 steps in turns in the same processes, which takes away what differs between
   one start and the next (several percent here). Goal: at most 1.01.
2. `gradsync train --strategy ddp` with everything on and bare_ddp.py, in turns, each in new processes. Goal: at
   most 1.02.

All train the same model on the same data with the same batch, threads and memory layout. About 8 minutes.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.record import Run, rank_rows
from gradsync.report.progress import WatchMany

HERE = Path(__file__).parent
SKIPPED = 1  # the first step warms up
SHORT = 8  # steps of a run that has a twin


def bare(steps: int, batch_size: int) -> list[float]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, str(HERE / "bare_ddp.py"), str(steps), str(batch_size), "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout)


def ours(steps: int, batch_size: int, out: str) -> list[float]:
    command = [sys.executable, "-m", "gradsync.cli", "train", "--strategy", "ddp", "--workers", "2", "--threads", "1"]
    command += ["--steps", str(steps), "--batch-size", str(batch_size), "--no-eval", "--out", out, "--json"]
    command += ["--tensorboard"] if importlib.util.find_spec("tensorboard") else []
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    rows = (Path(json.loads(done.stdout)["folder"]) / "rank-0.jsonl").read_text().splitlines()
    return [row["seconds"] for row in map(json.loads, rows) if row["kind"] == "step"]


def against_bare(rounds: int, steps: int, batch_size: int, out: str) -> None:
    times: dict[str, list[float]] = {"bare": [], "gradsync": []}
    ratios = []
    ways = {"bare": lambda: bare(steps, batch_size), "gradsync": lambda: ours(steps, batch_size, out)}
    for round_ in range(1, rounds + 1):
        # The one that goes first changes each round, so that a machine getting slower favours neither.
        order = list(ways) if round_ % 2 else list(reversed(ways))
        measured = {name: ways[name]()[SKIPPED:] for name in order}
        for name in ways:
            times[name] += measured[name]
        medians = {name: statistics.median(measured[name]) for name in ways}
        ratios.append(medians["gradsync"] / medians["bare"])
        shown = ", ".join(f"{name} {seconds:.4f} s" for name, seconds in medians.items())
        print(f"round {round_}: {shown}, ratio {ratios[-1]:.3f}", flush=True)
    bare_median, our_median = (statistics.median(times[name]) for name in ("bare", "gradsync"))
    print(
        f"median of {len(times['bare'])} steps each: bare {bare_median:.4f} s, gradsync {our_median:.4f} s, "
        f"ratio {our_median / bare_median:.3f}; rounds: {spread(ratios)}",
        flush=True,
    )


def measured_against_unmeasured(pairs: int, batch_size: int, out: str) -> None:
    configs = [
        RunConfig(
            strategy="ddp",
            workers=2,
            threads=1,
            steps=SHORT,
            batch_size=batch_size,
            eval=False,
            out=out,
            # on off off on on off ...: what changes with time favours neither
            measure=(number + number // 2) % 2 == 0,
        )
        for number in range(2 * pairs)
    ]
    runs = launch.run_in_turn(configs, WatchMany(Console(file=io.StringIO()), len(configs)))
    ratios = []
    steps: dict[bool, list[float]] = {True: [], False: []}
    for one, other in zip(runs[::2], runs[1::2], strict=True):
        on, off = (one, other) if one.config["measure"] else (other, one)
        ratios.append(statistics.median(step_seconds(on)) / statistics.median(step_seconds(off)))
        steps[True] += step_seconds(on)
        steps[False] += step_seconds(off)
    print(f"measured / unmeasured, {pairs} pairs of runs: {spread(ratios)}")
    # What else the machine does makes steps longer, never shorter: the fast ones tell most.
    for tenths in (1, 3, 5):
        on_seconds, off_seconds = (
            statistics.quantiles(steps[measured], n=10)[tenths - 1] for measured in (True, False)
        )
        print(
            f"measured / unmeasured, the step that {tenths} of 10 are faster than: {on_seconds:.4f} s / "
            f"{off_seconds:.4f} s = {on_seconds / off_seconds:.3f}",
            flush=True,
        )


def step_seconds(run: Run) -> list[float]:
    ranks = [[row["seconds"] for row in rows if row["kind"] == "step"] for rows in rank_rows(run.folder, 2)]
    return [seconds for rank in ranks for seconds in rank[SKIPPED:]]


def spread(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"median {middle:.3f}, half of them from {low:.3f} to {high:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as out:
        if asked.pairs:
            measured_against_unmeasured(asked.pairs, asked.batch_size, out)
        if asked.rounds:
            against_bare(asked.rounds, asked.steps, asked.batch_size, out)


if __name__ == "__main__":
    main()
