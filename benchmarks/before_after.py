"""Whether a change to gradsync made training slower: step times of two checkouts in alternating runs.

    python benchmarks/before_after.py [--smoke] [--before OTHER/src] [--rounds 8]    about 3 minutes
    expected: every ratio at most 1.01, within the noise. Without --before a checkout is compared with itself.

Each round trains the same model under each strategy with both checkouts, in new processes. The order changes each
round, so that a machine that slows down favours neither. A run counts with the median of its steps from the 3rd on;
the ratio is the median over the rounds. `gradsync --help` is timed in the same way.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from arguments import asked

HERE = Path(__file__).parent.parent / "src"
SKIPPED = 2  # steps that warm up
STRATEGIES = "local,all-reduce,bucketed,ddp"


def run(source: Path, words: list[str]) -> str:
    """Run gradsync with the code in this folder, whatever version is installed."""
    path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "gradsync.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def step_seconds(source: Path, strategy: str, steps: int, model: str) -> float:
    with tempfile.TemporaryDirectory() as out:
        words = ["train", "--model", model, "--strategy", strategy, "--threads", "1", "--steps", str(steps)]
        words += [
            "--workers",
            "1" if strategy == "local" else "2",
            "--device",
            "cpu",
            "--no-eval",
            "--out",
            out,
            "--json",
        ]
        folder = Path(json.loads(run(source, words))["folder"])
        rows = map(json.loads, (folder / "rank-0.jsonl").read_text().splitlines())
        return statistics.median(row["seconds"] for row in rows if row["kind"] == "step" and row["step"] > SKIPPED)


def help_seconds(source: Path) -> float:
    begin = time.perf_counter()
    run(source, ["--help"])
    return time.perf_counter() - begin


def in_turns(rounds: int, before: Path, measure: Callable[[Path], float]) -> None:
    sides = {"before": before, "after": HERE}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides) if number % 2 else list(reversed(sides)):
            times[name].append(measure(sides[name]))
    ratios = [after / one for one, after in zip(times["before"], times["after"], strict=True)]
    old, new = (statistics.median(each) for each in times.values())
    print(
        f"before {old * 1e3:8.2f} ms, after {new * 1e3:8.2f} ms, ratio {statistics.median(ratios):.3f} "
        f"(rounds {min(ratios):.3f} to {max(ratios):.3f})",
        flush=True,
    )


def main() -> None:
    here = str(HERE)
    given = asked(
        __doc__,
        before=(here, here),
        strategies=(STRATEGIES, "local"),
        rounds=(8, 1),
        steps=(40, 4),
        model=("mnist-cnn", "logistic"),
    )
    before = Path(given.before).resolve()
    for strategy in given.strategies.split(","):
        print(f"{strategy:12}", end=" ", flush=True)
        in_turns(given.rounds, before, partial(step_seconds, strategy=strategy, steps=given.steps, model=given.model))
    print(f"{'--help':12}", end=" ", flush=True)
    in_turns(given.rounds, before, help_seconds)


if __name__ == "__main__":
    main()
