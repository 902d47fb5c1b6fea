"""What gradsync costs: `gradsync train --strategy ddp` against bare_ddp.py, in turns, 2 workers.

    python benchmarks/overhead.py [--rounds 10] [--steps 16] [--batch-size 64]

Both train the same model on the same data with the same batch, threads and memory layout. Prints the median step
of each round and the ratio of the medians over all rounds. Goal: 1.02 or less. About 4 minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SKIPPED = 1  # the first step warms up


def bare(steps: int, batch_size: int) -> list[float]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, str(HERE / "bare_ddp.py"), str(steps), str(batch_size), "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout)


def ours(steps: int, batch_size: int, out: str) -> list[float]:
    command = [sys.executable, "-m", "gradsync.cli", "train", "--strategy", "ddp", "--workers", "2", "--threads", "1"]
    command += ["--steps", str(steps), "--batch-size", str(batch_size), "--no-eval", "--out", out, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    rows = (Path(json.loads(done.stdout)["folder"]) / "rank-0.jsonl").read_text().splitlines()
    return [row["seconds"] for row in map(json.loads, rows) if row["kind"] == "step"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=64)
    asked = parser.parse_args()

    times: dict[str, list[float]] = {"bare": [], "gradsync": []}
    ratios = []
    with tempfile.TemporaryDirectory() as out:
        ways = {
            "bare": lambda: bare(asked.steps, asked.batch_size),
            "gradsync": lambda: ours(asked.steps, asked.batch_size, out),
        }
        for round_ in range(1, asked.rounds + 1):
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
        f"ratio {our_median / bare_median:.3f}; median of the rounds' ratios {statistics.median(ratios):.3f}"
    )


if __name__ == "__main__":
    main()
