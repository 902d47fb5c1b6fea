"""The overhead of gradsync against a bare DDP script, and the overhead of its measurements; 2 workers.

    python benchmarks/overhead.py [--smoke]    about 3 minutes; expected: both ratios at most 1.02, within the noise.
    --rounds 10 --pairs 30 gives more reliable figures.

1. Measured and unmeasured runs of 8 steps alternate in the same processes, which removes the differences between
   one start and the next (several percent here). Goal: at most 1.01.
2. `gradsync train --strategy ddp` with everything on and bare_ddp.py alternate, each in new processes. Goal: at
   most 1.02.

All train the same model on the same data with the same batch, threads and memory layout. --rounds 0 skips the second
comparison, --pairs 0 the first.
"""

from __future__ import annotations

import importlib.util
import io
import json
import statistics
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path

from rich.console import Console

import bare_ddp
from arguments import asked
from bare_ddp import SKIPPED
from gradsync import launch
from gradsync.config import RunConfig
from gradsync.library.runs.check import resolved
from gradsync.live.study_progress import WatchStudy
from gradsync.record import rank_records

SHORT = 8  # steps of each run of a pair


def ours(steps: int, batch_size: int, out: str) -> list[float]:
    command = [sys.executable, "-m", "gradsync.cli", "train", "--strategy", "ddp", "--workers", "2", "--threads", "1"]
    command += ["--steps", str(steps), "--batch-size", str(batch_size), "--no-eval", "--out", out, "--json"]
    command += ["--device", "cpu"]  # as the bare script
    command += ["--tensorboard"] if importlib.util.find_spec("tensorboard") else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return step_seconds(Path(json.loads(done.stdout)["folder"]))[0]


def against_bare(rounds: int, steps: int, batch_size: int, out: str) -> None:
    times: dict[str, list[float]] = {"bare": [], "gradsync": []}
    ratios = []
    ways = {"bare": lambda: bare_ddp.timed(steps, batch_size), "gradsync": lambda: ours(steps, batch_size, out)}
    for round_ in range(1, rounds + 1):
        # The one that goes first changes each round, so that a machine that slows down favours neither.
        order = list(ways) if round_ % 2 else list(reversed(ways))
        measured = {name: ways[name]() for name in order}
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
            device="cpu",
            out=out,
            # on off off on on off ...: drift over time favours neither
            measure=(number + number // 2) % 2 == 0,
        )
        for number in range(2 * pairs)
    ]
    with WatchStudy(Console(file=io.StringIO()), [config.to_dict() for config in configs], len(configs)) as watch:
        runs = launch.run_in_turn([resolved(config) for config in configs], watch)
    ratios = []
    steps: dict[bool, list[float]] = {True: [], False: []}
    for one, other in zip(runs[::2], runs[1::2], strict=True):
        seconds = {run.asked.measure: [*chain(*step_seconds(run.folder))] for run in (one, other)}
        ratios.append(statistics.median(seconds[True]) / statistics.median(seconds[False]))
        for measured in (True, False):
            steps[measured] += seconds[measured]
    print(f"measured / unmeasured, {pairs} pairs of runs: {spread(ratios)}")
    # Other load on the machine makes steps longer, never shorter: the fast ones are the most reliable.
    for tenths in (1, 3, 5):
        on_seconds, off_seconds = (
            statistics.quantiles(steps[measured], n=10)[tenths - 1] for measured in (True, False)
        )
        print(
            f"measured / unmeasured, {tenths}0th percentile of the steps: {on_seconds:.4f} s / "
            f"{off_seconds:.4f} s = {on_seconds / off_seconds:.3f}",
            flush=True,
        )


def step_seconds(folder: Path) -> list[list[float]]:
    """The step times of each rank, without the first step."""
    return [[row["seconds"] for row in record.steps[SKIPPED:]] for record in rank_records(folder, 2)]


def spread(ratios: list[float]) -> str:
    if len(ratios) == 1:
        return f"{ratios[0]:.3f}"
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"median {middle:.3f}, the middle half from {low:.3f} to {high:.3f}"


def main() -> None:
    given = asked(__doc__, rounds=(5, 1), steps=(16, 3), pairs=(8, 1), batch_size=(64, 4))
    with tempfile.TemporaryDirectory() as out:
        if given.pairs:
            measured_against_unmeasured(given.pairs, given.batch_size, out)
        if given.rounds:
            against_bare(given.rounds, given.steps, given.batch_size, out)


if __name__ == "__main__":
    main()
