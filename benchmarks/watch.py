"""The overhead of watching a script, and of recording with attach, against the same script bare; 2 workers.

    python benchmarks/watch.py [--smoke]    about 6 minutes; expected: both ratios at most 1.02, within the noise.
    --rounds 10 --steps 40 gives more reliable figures; --model logistic shows what a step of some milliseconds costs.

Three ways to start the same loop, in turns, each in new processes under torchrun: bare DDP, the same script
unchanged under `gradsync watch`, and with `gradsync.attach(..., strategy="ddp", record=...)`. The script itself times
its steps, in the same way in all three, without the first ones.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from arguments import asked

WORKERS = 2
SKIPPED = 2  # steps, in which memory is allocated and DDP forms its buckets
WAYS = ("bare", "watch", "attach")


def train(way: str, model_name: str, steps: int, batch_size: int, folder: Path) -> None:
    """The script: the loop of one rank."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    from gradsync import models

    torch.manual_seed(0)
    torch.set_num_threads(1)
    shape = (1, 28, 28) if model_name == "logistic" else (3, 32, 32)
    model = models.build(model_name, shape=shape, classes=10, norm="batch")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    share = batch_size // WORKERS
    images, labels = torch.randn(4 * share, *shape), torch.randint(0, 10, (4 * share,))
    if way == "attach":
        import gradsync

        wrapped = gradsync.attach(model, optimizer, strategy="ddp", record=folder / "attached", report=False)
        step = wrapped.step
    else:
        dist.init_process_group("gloo")
        wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)

        def step() -> None:
            optimizer.step()
            optimizer.zero_grad()

    seconds = []
    for number in range(steps + SKIPPED):
        begin = time.perf_counter()
        start = number % 4 * share
        loss = cross_entropy(wrapped(images[start : start + share]), labels[start : start + share])
        loss.backward()
        step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        (folder / "seconds.json").write_text(json.dumps(seconds[SKIPPED:]))
    if way != "attach":
        # DDP goes before its group: the last reference to a group that Python drops makes torch wait for threads of
        # gloo that wait for Python's lock (one of 10 bare scripts on a busy machine).
        del wrapped
        gc.collect()
        dist.destroy_process_group()


def timed(way: str, model: str, steps: int, batch_size: int) -> float:
    """The median step of one start."""
    with tempfile.TemporaryDirectory() as folder:
        script = [__file__, "--train", way, model, str(steps), str(batch_size), folder]
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS)]
        words += script
        if way == "watch":
            words = [sys.executable, "-m", "gradsync.cli", "watch", "--out", f"{folder}/runs", "--", *words]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode:
            sys.exit(done.stderr)
        recorded = {"bare": None, "watch": "runs/*/summary.json", "attach": "attached/summary.json"}[way]
        if recorded and not list(Path(folder).glob(recorded)):
            sys.exit(f"{way} has recorded nothing: {done.stderr}")
        return statistics.median(json.loads(Path(folder, "seconds.json").read_text()))


def spread(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f} (standard deviation over the rounds)"


def main() -> None:
    given = asked(__doc__, rounds=(6, 1), steps=(24, 3), batch_size=(64, 4), model=("vgg11", "logistic"))
    ratios: dict[str, list[float]] = {way: [] for way in WAYS[1:]}
    for round_ in range(given.rounds):
        order = WAYS[round_ % len(WAYS) :] + WAYS[: round_ % len(WAYS)]  # a machine that slows down favours none
        found = {way: timed(way, given.model, given.steps, given.batch_size) for way in order}
        for way in ratios:
            ratios[way].append(found[way] / found["bare"])
        shown = ", ".join(f"{way} {found[way] * 1e3:.2f} ms" for way in WAYS)
        print(f"round {round_ + 1}: {shown}", flush=True)
    for way, each in ratios.items():
        print(f"{way} / bare, median steps of each round: {spread(each)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(*sys.argv[2:4], *map(int, sys.argv[4:6]), Path(sys.argv[6]))
    else:
        main()
