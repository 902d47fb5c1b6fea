"""What it costs to give memory back to the kernel after every step: vgg11, 32 samples, one thread, in turns.

    python benchmarks/malloc.py

Trains with glibc's defaults and with the settings that gradsync gives its workers. About 1 minute. Linux with glibc.
"""

from __future__ import annotations

import os
import subprocess
import sys

from gradsync.config import RunConfig
from gradsync.launch.local import rank_environment

STEPS = """
import resource, statistics, time, torch
from torch.nn.functional import cross_entropy
from gradsync import models
torch.set_num_threads(1)
model = models.build("vgg11", shape=(3, 32, 32), classes=10).to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
inputs = torch.randn(32, 3, 32, 32).contiguous(memory_format=torch.channels_last)
labels = torch.randint(0, 10, (32,))
seconds = []
for step in range(25):
    if step == 5:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    begin = time.perf_counter()
    cross_entropy(model(inputs), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
    seconds.append(time.perf_counter() - begin)
faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20
print(f"{statistics.median(seconds[5:]) * 1e3:.1f} ms a step, {faults:,.0f} page faults a step")
"""


def main() -> None:
    ours = {name: value for name, value in rank_environment(RunConfig().resolved()).items() if "MALLOC" in name}
    for _ in range(3):
        for name, variables in {"glibc's defaults": {}, "gradsync's workers": ours}.items():
            done = subprocess.run(
                [sys.executable, "-c", STEPS],
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                check=True,
            )
            print(f"{name:18}: {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
