"""Which memory layout is faster, model by model and precision by precision: contiguous or channels-last.

    python benchmarks/memory_format.py [--smoke]    about 2 minutes; expected: channels-last is faster, except for
    alexnet in fp32

The steps alternate between the layouts. The answer is recorded in gradsync.models.MODELS (channels_last).
"""

from __future__ import annotations

import statistics
import time

import torch
from torch.nn.functional import cross_entropy

from arguments import asked
from gradsync import models
from gradsync.train.precision import PRECISIONS

BATCHES = {"vgg11": 32, "resnet18": 16, "alexnet": 16, "mnist-cnn": 128}
LAYOUTS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}


class Case:
    """A model in one layout; ``step`` trains it once and returns the seconds."""

    def __init__(self, name: str, precision: str, layout: torch.memory_format, batch: int) -> None:
        torch.manual_seed(0)
        self.precision = PRECISIONS[precision]
        shape, classes = models.native_data(name)
        self.model = models.build(name, shape=shape, classes=classes)
        self.model.to(self.precision.storage).to(memory_format=layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        inputs = torch.randn(batch, *shape, dtype=self.precision.storage)
        self.inputs = inputs.contiguous(memory_format=layout)
        self.labels = torch.randint(0, classes, (batch,))

    def step(self) -> float:
        begin = time.perf_counter()
        with self.precision.forward(torch.device("cpu")):
            loss = cross_entropy(self.model(self.inputs), self.labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.perf_counter() - begin


def main() -> None:
    given = asked(__doc__, models=(",".join(BATCHES), "mnist-cnn"), rounds=(3, 2))
    print(f"{torch.get_num_threads()} threads, median of {given.rounds - 1} steps after one warm-up step")
    for name in given.models.split(","):
        batch = 2 if given.smoke else BATCHES[name]
        for precision in PRECISIONS:
            cases = {layout: Case(name, precision, form, batch) for layout, form in LAYOUTS.items()}
            rounds = [{layout: case.step() for layout, case in cases.items()} for _ in range(given.rounds)][1:]
            medians = {layout: statistics.median(times[layout] for times in rounds) for layout in LAYOUTS}
            chosen = precision in models.MODELS[name].channels_last
            ratio = medians["channels-last"] / medians["contiguous"]
            print(
                f"{name:10} {precision}: contiguous {medians['contiguous'] * 1e3:7.1f} ms, "
                f"channels-last {medians['channels-last'] * 1e3:7.1f} ms, ratio {ratio:.2f}, "
                f"used: {'channels-last' if chosen else 'contiguous'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
