"""How long training waits for data: one worker, vgg11, batch 256, with CIFAR-10's crops and flips.

    python benchmarks/data_share.py [--smoke]    about 1 minute; expected: under 3 %

Prints data time as a share of the step, from the run's own record. The data is the real CIFAR-10 where it is found,
otherwise, and with --smoke, synthetic images, which are not augmented.
"""

from __future__ import annotations

import tempfile

from arguments import asked
from gradsync import launch
from gradsync.config import RunConfig
from gradsync.data import FILE_SETS, data_folder
from gradsync.library.runs.check import resolved


def main() -> None:
    given = asked(__doc__, steps=(20, 3), batch_size=(256, 8))
    found = not given.smoke and FILE_SETS["cifar10"].locate(data_folder()) is not None
    data = "cifar10" if found else "synthetic"
    with tempfile.TemporaryDirectory() as out:
        size = {"steps": given.steps, "batch_size": given.batch_size, "train_samples": given.steps * given.batch_size}
        run = launch.run(resolved(RunConfig(data=data, **size, eval=False, out=out)))
        assert run.summary is not None and run.status == "completed", run.summary
        step = run.summary.seconds_per_step
        wait = run.summary.ranks[0].ledger["data"]
        kind = "crops and flips" if found else "not augmented"
        print(f"{data} ({kind}): step {step:.3f} s, waiting for data {wait * 1e3:.2f} ms = {wait / step:.2%}")


if __name__ == "__main__":
    main()
