"""Is scaling on an emulated cluster real? One node with half a core against four of them, in turns, as a ratio.

`none` computes the gradients of its share and agrees with nobody: its speed-up is what the shares of the cores allow.
"""

from __future__ import annotations

import statistics
import tempfile

import tyro

from gradsync import launch
from gradsync.config import RunConfig


def main(rounds: int = 3, model: str = "vgg11", batch_size: int = 128, steps: int = 8, cpus: float = 0.5) -> None:
    """Print the time of a step on one node and on four, round by round, and the speed-up."""
    ratios = []
    with tempfile.TemporaryDirectory() as out:
        for number in range(1, rounds + 1):
            seconds = {}
            for strategy in ("local", "none"):
                config = RunConfig(
                    model=model,
                    strategy=strategy,
                    nodes=4,
                    cpus=cpus,
                    batch_size=batch_size,
                    steps=steps,
                    eval=False,
                    out=out,
                )
                run = launch.run(config)
                assert run.status == "completed" and run.summary, run.summary
                seconds[strategy] = run.summary["seconds_per_step"]
                delays = run.summary["cluster"]["run_delay_percent"]
                lacking = ", ".join(f"{node} {delay:.0f} %" for node, delay in delays.items())
                print(f"round {number}: {strategy:<5} {seconds[strategy]:.3f} s a step; without a core: {lacking}")
            ratios.append(seconds["local"] / seconds["none"])
    print(f"speed-up 1 → 4 nodes: median {statistics.median(ratios):.2f} of {', '.join(f'{r:.2f}' for r in ratios)}")


if __name__ == "__main__":
    tyro.cli(main)
