"""What it costs to give memory back to the kernel after every step: vgg11, one thread. Linux with glibc.

    python benchmarks/malloc.py [--smoke]    about 1 minute; expected: 0 page faults a step for gradsync's workers,
    thousands with glibc's defaults, and steps about 5 % shorter

Trains alternately with glibc's defaults and with the settings that gradsync gives its workers.
"""

from __future__ import annotations

import os
import subprocess
import sys

from arguments import asked
from gradsync.config import RunConfig
from gradsync.launch.processes import rank_environment
from gradsync.library.runs.check import resolved

SKIPPED = 5
STEPS = f"""
import resource, statistics, sys, time, torch
from torch.nn.functional import cross_entropy
from gradsync import models
steps, samples = map(int, sys.argv[1:])
torch.set_num_threads(1)
model = models.build("vgg11", shape=(3, 32, 32), classes=10).to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
inputs = torch.randn(samples, 3, 32, 32).contiguous(memory_format=torch.channels_last)
labels = torch.randint(0, 10, (samples,))
seconds = []
for step in range({SKIPPED} + steps):
    if step == {SKIPPED}:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    begin = time.perf_counter()
    cross_entropy(model(inputs), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
    seconds.append(time.perf_counter() - begin)
faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / steps
print(f"{{statistics.median(seconds[{SKIPPED}:]) * 1e3:.1f}} ms a step, {{faults:,.0f}} page faults a step")
"""


def main() -> None:
    given = asked(__doc__, rounds=(3, 1), steps=(20, 2), batch_size=(32, 2))
    ours = {name: value for name, value in rank_environment(resolved(RunConfig())).items() if "MALLOC" in name}
    if not ours:
        print("not measured: gradsync gives its workers no settings for malloc here; they need glibc 2.36 or later.")
        return
    for _ in range(given.rounds):
        for name, variables in {"glibc's defaults": {}, "gradsync's workers": ours}.items():
            done = subprocess.run(
                [sys.executable, "-c", STEPS, str(given.steps), str(given.batch_size)],
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            print(f"{name:18}: {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
