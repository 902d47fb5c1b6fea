"""Is scaling on an emulated cluster real? Throughput of one node with half a core against four such nodes.

    python benchmarks/cluster.py [--smoke]    about 5 minutes; expected: speed-ups of 3 to 4. Needs root.
    --rounds 4 gives a more reliable figure.

Strategy `none` computes gradients without communication: its speed-up is what the nodes' shares of the cores allow.
Weak scaling: every node has the batch of the single node. Strong scaling: four nodes share the batch of one, so that
each computes on smaller batches. The runs alternate.
"""

from __future__ import annotations

import statistics
import tempfile

from arguments import asked
from gradsync import launch
from gradsync.config import RunConfig
from gradsync.library.runs.check import resolved
from gradsync.record import Run


def main() -> None:
    """Print samples per second on one node and on all, round by round, and the speed-ups."""
    flags = {"rounds": (2, 1), "model": ("vgg11", "logistic"), "batch_per_node": (64, 4), "steps": (8, 2)}
    given = asked(__doc__, **flags, nodes=(4, 2), cpus=(0.5, 1.0))
    nodes, one_batch = given.nodes, given.batch_per_node
    shared = {"model": given.model, "nodes": nodes, "cpus": given.cpus, "steps": given.steps, "eval": False}
    cases = {
        "one node": ("local", one_batch),
        f"one node, {nodes} times the batch": ("local", nodes * one_batch),
        f"{nodes} nodes": ("none", nodes * one_batch),
    }
    weak, strong = [], []
    with tempfile.TemporaryDirectory() as out:
        for number in range(1, given.rounds + 1):
            rates = []
            for name, (strategy, batch) in cases.items():
                run = launch.run(resolved(RunConfig(strategy=strategy, batch_size=batch, **shared, out=out)))
                end_unless_completed(run)
                rates.append(run.summary.samples_per_second)
                lacking = max(run.summary.cluster.run_delay_percent.values())
                print(
                    f"round {number}: {name:<30} {rates[-1]:6.1f} samples/s; "
                    f"runnable but not scheduled at most {lacking:.0f} %"
                )
            one, one_with_all, all_nodes = rates
            weak.append(all_nodes / one)
            strong.append(all_nodes / one_with_all)
    for name, ratios in (("weak", weak), ("strong", strong)):
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"speed-up 1 → {nodes} nodes, {name}: median {statistics.median(ratios):.2f} of {each}")


def end_unless_completed(run: Run) -> None:
    """A cluster that cannot be created here is not a failure of this benchmark: print a sentence, and exit with 0."""
    if run.status == "completed":
        return
    error = run.summary.error
    if error.type == "InputError":
        print(f"not measured: {error.message}")
    raise SystemExit(0 if error.type == "InputError" else str(error))


if __name__ == "__main__":
    main()
