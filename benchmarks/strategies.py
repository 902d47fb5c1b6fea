"""Every synchronous strategy over every transport on VGG-11, in alternating runs: step time as a ratio to ddp.

    python benchmarks/strategies.py [--smoke]    about 4 minutes; expected: bucketed at most 1.03 of ddp, ring at
    most 1.3 of gloo's all-reduce on the same bytes (``one-block``: one_block.py). --rounds 3 is more reliable.

--only bucketed,ring compares these with ddp and leaves out the others; --workers 2,4 are the numbers of workers.
"""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
from pathlib import Path

from arguments import asked
from gradsync import launch
from gradsync.config import RunConfig
from gradsync.library.runs.check import resolved
from gradsync.record import Run, rank_records
from gradsync.strategies import STRATEGIES

SKIPPED = 1  # the first step warms up

COLLECTIVE = [name for name, kind in STRATEGIES.items() if not (kind.has_servers or kind.in_one_process)]
ONE_BLOCK = f"{Path(__file__).with_name('one_block.py')}:OneBlock"

# Those that can share processes stand next to each other: starting takes longer than the steps.
WAYS: list[tuple[str, str]] = [(name, "gloo") for name in (*COLLECTIVE, ONE_BLOCK)]
WAYS += [("data-parallel", "auto"), ("ps-sync", "gloo")]
if importlib.util.find_spec("mpi4py"):
    WAYS += [("ps-sync", "mpi")] + [(name, "mpi") for name in (*COLLECTIVE, ONE_BLOCK) if name not in ("ddp", "none")]


def measure(chosen: list[tuple[str, str]], workers: int, rounds: int, steps: int, batch_size: int, out: str) -> None:
    base = {"workers": workers, "threads": 1, "steps": steps, "batch_size": batch_size, "buffers": "local"}
    step: dict[tuple[str, str], list[float]] = {way: [] for way in chosen}
    messages: dict[tuple[str, str], list[float]] = {way: [] for way in chosen}
    medians: dict[tuple[str, str], list[float]] = {way: [] for way in chosen}
    for round_ in range(rounds):
        # A different one goes first each round, so that a machine that slows down favours none.
        first = round_ % len(chosen)
        turned = chosen[first:] + chosen[:first]
        ways = sorted(turned, key=lambda way: (way[1], way[0] not in (*COLLECTIVE, ONE_BLOCK)))
        asked = [RunConfig(**base, strategy=name, transport=via, eval=False, out=out) for name, via in ways]
        for way, run in zip(ways, launch.run_in_turn([resolved(item) for item in asked]), strict=True):
            assert run.status == "completed", run.summary
            rows = timed_rows(run)
            step[way] += [row["seconds"] for row in rows]
            messages[way] += [sum(end - start for *_, start, end, _ in row["collectives"]) for row in rows]
            medians[way].append(statistics.median(row["seconds"] for row in rows))
    ddp = statistics.median(step["ddp", "gloo"])
    for way in chosen:
        by_round = [a / b for a, b in zip(medians[way], medians["ddp", "gloo"], strict=True)]
        print(
            f"{workers} workers, {label(way):24} {statistics.median(step[way]):.3f} s a step, "
            f"{statistics.median(step[way]) / ddp:.3f} of ddp, rounds {min(by_round):.2f} to {max(by_round):.2f}",
            flush=True,
        )
    for via in sorted({via for name, via in chosen if name == "ring" and (ONE_BLOCK, via) in chosen}):
        ring, block = (statistics.median(messages[name, via]) for name in ("ring", ONE_BLOCK))
        print(
            f"{workers} workers, ring over {via}: {ring * 1e3:.1f} ms a step in messages, {ring / block:.2f} of one "
            f"all-reduce of the same bytes ({block * 1e3:.1f} ms)",
            flush=True,
        )


def timed_rows(run: Run) -> list[dict]:
    ranks = rank_records(run.folder, len(run.summary.ranks))
    return [row for record in ranks for row in record.steps if row["step"] > SKIPPED]


def label(way: tuple[str, str]) -> str:
    name, via = way
    return ("one-block" if name == ONE_BLOCK else name) + (" over mpi" if via == "mpi" else "")


def main() -> None:
    flags = {"rounds": (1, 1), "steps": (6, 2), "batch_size": (64, 4), "workers": ("2,4", "2")}
    given = asked(__doc__, **flags, only=("all", "bucketed,ring,one-block"))
    names = {"ddp", *given.only.replace("one-block", ONE_BLOCK).split(",")}
    chosen = [(name, via) for name, via in WAYS if name in names or given.only == "all"]
    with tempfile.TemporaryDirectory() as out:
        for workers in map(int, given.workers.split(",")):
            measure(chosen, workers, given.rounds, given.steps, given.batch_size, out)


if __name__ == "__main__":
    main()
