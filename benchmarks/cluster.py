"""Is scaling on an emulated cluster real? One node with half a core against four of them, in turns, as a ratio.

`none` computes the gradients of its share and agrees with nobody: its speed-up is what the shares of the cores allow.
Weak: every node has the batch the one has. Strong: four nodes share it, so that each computes on smaller batches.
"""

from __future__ import annotations

import statistics
import tempfile

import tyro

from gradsync import launch
from gradsync.config import RunConfig

NODES = 4


def main(rounds: int = 4, model: str = "vgg11", batch_per_node: int = 64, steps: int = 8, cpus: float = 0.5) -> None:
    """Print samples a second on one node and on four, round by round, and the speed-ups."""
    cases = {
        "one node": ("local", batch_per_node),
        "one node, four times the batch": ("local", NODES * batch_per_node),
        "four nodes": ("none", NODES * batch_per_node),
    }
    weak, strong = [], []
    with tempfile.TemporaryDirectory() as out:
        for number in range(1, rounds + 1):
            rates = []
            for name, (strategy, batch) in cases.items():
                shared = {"model": model, "nodes": NODES, "cpus": cpus, "steps": steps, "eval": False, "out": out}
                run = launch.run(RunConfig(strategy=strategy, batch_size=batch, **shared))
                assert run.status == "completed" and run.summary, run.summary
                rates.append(run.summary["samples_per_second"])
                lacking = max(run.summary["cluster"]["run_delay_percent"].values())
                print(
                    f"round {number}: {name:<30} {rates[-1]:6.1f} samples/s; without a core at most {lacking:.0f} %"
                )
            one, one_with_all, four = rates
            weak.append(four / one)
            strong.append(four / one_with_all)
    for name, ratios in (("weak", weak), ("strong", strong)):
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"speed-up 1 → {NODES} nodes, {name}: median {statistics.median(ratios):.2f} of {each}")


if __name__ == "__main__":
    tyro.cli(main)
