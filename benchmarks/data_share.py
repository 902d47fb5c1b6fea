"""How long training waits for data: one worker, vgg11, batch 256, with CIFAR-10's crops and flips.

    python benchmarks/data_share.py

Data time as a share of the step, from the run's own rows. Goal: under 3 %. On real CIFAR-10 where it is found,
otherwise on synthetic images, which are not augmented. About 1 minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.data import FILE_SETS, data_folder


def main() -> None:
    found = FILE_SETS["cifar10"].locate(data_folder()) is not None
    data = "cifar10" if found else "synthetic"
    with tempfile.TemporaryDirectory() as out:
        run = launch.run(RunConfig(data=data, batch_size=256, train_samples=5120, steps=20, eval=False, out=out))
        assert run.summary is not None and run.status == "completed", run.summary
        step = run.summary["seconds_per_step"]
        wait = run.summary["ranks"][0]["ledger"]["data"]
        kind = "crops and flips" if found else "no augmentation: cifar10 is not in " + str(Path(data_folder()))
        print(f"{data} ({kind}): step {step:.3f} s, waiting for data {wait * 1e3:.2f} ms = {wait / step:.2%}")


if __name__ == "__main__":
    main()
