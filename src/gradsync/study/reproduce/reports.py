"""What each report ran, as runs of ours: name -> settings, for each scale.

``full`` is what the report did. ``short`` and ``smoke`` make fewer steps, or take fewer samples, and differ in
nothing else but what ``ReportRuns.short`` says. Where a report had a cluster, the nodes are emulated ones that fit on
two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from gradsync.config import RunConfig
from gradsync.exhibit.form import Section
from gradsync.figures.cases import Case
from gradsync.study.communication import Communication

Scale = Literal["full", "short", "smoke"]
T = TypeVar("T")

Cases = dict[str, RunConfig]


@dataclass(frozen=True)
class Available:
    """What there is to run with."""

    scale: Scale
    real_data: Collection[str]
    """The data sets on this machine."""

    emulated: bool = True
    """Whether nodes can be emulated; else all workers are processes of this machine."""

    gpu: bool = False
    steps: int | None = None
    """End every run after this many steps."""

    def choose(self, full: T, short: T, smoke: T) -> T:
        return {"full": full, "short": short, "smoke": smoke}[self.scale]

    def batch(self, size: int) -> int:
        """The batch size; a sixteenth of it at scale smoke."""
        return self.choose(size, size, max(2, size // 16))

    def data(self, name: str) -> str:
        return name if name in self.real_data else "synthetic"

    def nodes(self, count: int, **shape: Any) -> dict[str, Any]:
        return {"nodes": count, **shape} if self.emulated else {}

    def until(self, epochs: int, short: int, smoke: int = 2) -> dict[str, Any]:
        """Whole epochs, or this many steps."""
        steps = self.steps or self.choose(None, short, smoke)
        return {"steps": steps} if steps else {"epochs": epochs}

    def during(self, epochs: int) -> dict[str, Any]:
        """Whole epochs at every scale, unless the user gives a number of steps."""
        return {"steps": self.steps} if self.steps else {"epochs": epochs}


@dataclass(frozen=True)
class ReportRuns:
    cases: Callable[[Available], Cases]
    short: str
    """What is different from the report at scale short, in a sentence."""

    minutes: dict[str, float]
    """About how long each scale took on a machine with 2 cores."""

    own_processes: Callable[[RunConfig], bool] = lambda config: False
    """Whether a run needs fresh processes, because its peak memory is measured."""

    more: Callable[[dict[str, Case]], list[Section]] = lambda ours: []
    """What our runs show in addition to the tables and figures of the report."""


WAYS = ("local", "gather-scatter", "all-reduce", "ddp")
HALF = 0.5  # of a core: four such nodes fit on two


def vgg11(seed: int, bandwidth: str) -> Callable[[Available], Cases]:
    def cases(ask: Available) -> Cases:
        shared: dict[str, Any] = {
            "model": "vgg11",
            "data": ask.data("cifar10"),
            "seed": seed,
            "batch_size": 256,
            "lr": 0.1,
            "test_samples": ask.choose(None, 1024, 128),
            **ask.until(epochs=1, short=10),
        }
        return {
            way: RunConfig(
                **shared,
                strategy=way,
                workers=1 if way == "local" else 4,
                **ask.nodes(1 if way == "local" else 4, bandwidth=bandwidth, cpus=HALF),
            )
            for way in WAYS
        }

    return cases


LAB_WORKERS, LAB_BATCHES = (1, 2, 4), (32, 128, 512)
LAB_MEMORY = "5.5GB"  # a batch of 512 takes 4.5, and the page cache counts; four such nodes fit into 24 GB
TOO_LARGE = 2048


def hpml(ask: Available) -> Cases:
    """Workers with half a core and 5.5 GB each stand for the lab's GPUs."""
    resnet: dict[str, Any] = {"model": "resnet18", "data": ask.data("cifar10"), "eval": False}
    steps = {32: (4, 2), 128: (4, 2), 512: (2, 2), TOO_LARGE: (2, 2)}
    layouts = [(workers, batch) for batch in LAB_BATCHES for workers in LAB_WORKERS]
    timed = {
        f"{workers}x{batch}": RunConfig(
            **resnet,
            strategy="local" if workers == 1 else "all-reduce",
            workers=workers,
            batch_per_worker=ask.batch(batch),
            lr_scaling="none",
            warmup_epochs=0,
            **ask.until(2, *steps[batch]),
            **ask.nodes(workers, cpus=HALF, memory=LAB_MEMORY),
        )
        for workers, batch in [*layouts, (1, TOO_LARGE)]
    }
    return timed | large_batches(ask) | questions(ask)


def lab_more(ours: dict[str, Case]) -> list[Section]:
    """Questions 2 and 3 by the ledger and by the lab's subtraction, with impossible figures flagged."""
    timed = [run for name, case in ours.items() if name[0].isdigit() for run in case.runs]
    return Communication().sections([run for run in timed if run.summary])


def large_batches(ask: Available) -> Cases:
    learnt: dict[str, Any] = {
        "model": ask.choose("resnet18", "mnist-cnn", "mnist-cnn"),
        "data": ask.data(ask.choose("cifar10", "mnist", "mnist")),
        "train_samples": ask.choose(None, 6000, 600),
        "test_samples": ask.choose(None, 2000, 200),
        "train_accuracy": True,
        "lr": 0.01,
        **ask.during(ask.choose(5, 5, 2)),
    }
    small, large = ask.choose((128, 2048), (128, 2048), (32, 512))
    return {
        "batch-128": RunConfig(**learnt, strategy="local", batch_size=small),
        "batch-large": RunConfig(**learnt, strategy="data-parallel", workers=4, batch_size=large),
        "batch-large-remedies": RunConfig(
            **learnt | {"lr": 0.01 * large / small, "warmup_epochs": 1.0},
            strategy="data-parallel",
            workers=4,
            batch_size=large,
        ),
    }


def questions(ask: Available) -> Cases:
    logistic: dict[str, Any] = {
        "model": "logistic",
        "data": ask.data("mnist"),
        "train_samples": ask.choose(None, 6000, 600),
        "batch_size": 128,
        "lr": 0.1,
        **ask.during(ask.choose(10, 10, 2)),
    }
    messages: dict[str, Any] = {
        "model": "resnet18",
        "data": ask.data("cifar10"),
        "batch_size": 32,
        "test_samples": 512,
        **ask.until(1, 6),
    }
    return {
        "reshuffled": RunConfig(**logistic, strategy="ddp", workers=2),
        "same-order": RunConfig(**logistic, strategy="ddp", workers=2, reshuffle=False),
        "ddp": RunConfig(**messages, strategy="ddp", workers=2),
        "gradients-only": RunConfig(**messages, strategy="all-reduce", workers=2, buffers="local"),
        "own-start": RunConfig(**messages, strategy="all-reduce", workers=2, buffers="local", start="own"),
    }


LOGISTIC_BATCHES = (10, 50, 100, 200, 500)
ALEXNET_BATCHES = (32, 64, 128, 256, 512)
ALEXNET_SHARE = 0.66  # three such nodes fit on two cores


def tensorflow(ask: Available) -> Cases:
    return logistic_alone(ask) | logistic_servers(ask) | alexnet(ask)


def logistic(ask: Available) -> dict[str, Any]:
    return {
        "model": "logistic",
        "data": ask.data("mnist"),
        "lr": 0.01,
        "momentum": 0.0,
        "weight_decay": 0.0,
        "train_samples": ask.choose(None, 6000, 600),
        "test_samples": ask.choose(None, 5000, 500),
    }


def logistic_alone(ask: Available) -> Cases:
    epochs = ask.choose(10, 10, 1)

    def run(**changes: Any) -> RunConfig:
        settings = {**logistic(ask), "batch_size": 100, **ask.during(epochs), **changes}
        return RunConfig(**settings, strategy="local", **ask.nodes(1, cpus=ALEXNET_SHARE))

    return {
        **{f"batch-{size}": run(batch_size=size) for size in LOGISTIC_BATCHES},
        **{f"epochs-{number}": run(**ask.during(number)) for number in (6, 10, 50, 100, 200)},
        **{f"lr-{rate:g}": run(lr=rate) for rate in (0.001, 0.01, 0.1)},
    }


def logistic_servers(ask: Available) -> Cases:
    """Every node has a worker, and the first one the server as well."""

    def run(way: str, workers: int, batch: int) -> RunConfig:
        return RunConfig(
            **logistic(ask),
            **ask.during(ask.choose(10, 10, 1)),
            strategy=f"ps-{way}",
            workers=workers,
            server_placement="shared",
            batch_per_worker=batch,
            lr_scaling="none",
            warmup_epochs=0,
            **ask.nodes(workers, cpus=ALEXNET_SHARE),
        )

    return {
        **{f"{way}-{workers}": run(way, workers, 100) for way in ("async", "sync") for workers in (1, 2, 3)},
        **{f"{way}-3-{size}": run(way, 3, size) for way in ("async", "sync") for size in LOGISTIC_BATCHES},
    }


def alexnet(ask: Available) -> Cases:
    def run(workers: int, batch: int) -> RunConfig:
        alone = workers == 1
        return RunConfig(
            model="alexnet",
            eval=False,
            batch_per_worker=batch,
            lr_scaling="none",
            warmup_epochs=0,
            strategy="local" if alone else "ps-sync",
            workers=workers,
            server_placement="own" if alone else "shared",
            train_samples=batch * workers * 2,
            steps=ask.steps or ask.choose(10, 4 if batch < 512 else 2, 2),
            **ask.nodes(workers, bandwidth="10gbit", cpus=ALEXNET_SHARE),
        )

    return {
        **{f"alexnet-{size}": run(1, ask.batch(size)) for size in ALEXNET_BATCHES},
        **{f"alexnet-{n}-{size}": run(n, ask.batch(size)) for n in (2, 3) for size in ALEXNET_BATCHES[:-1]},
    }


LAYOUTS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4), (4, 1), (4, 2))
QUARTER = 0.25  # of a core: eight such processes fit on two


def mpi_mnist(ask: Available) -> Cases:
    shared: dict[str, Any] = {
        "model": "mnist-cnn",
        "data": ask.data("mnist"),
        "optimizer": "adam",
        "lr": 0.001,
        "train_samples": ask.choose(None, 6000, 1024),
        "test_samples": ask.choose(None, 2000, 200),
        "train_accuracy": True,
        **ask.during(ask.choose(5, 2, 1)),
    }
    found = {
        f"{nodes}x{each}": RunConfig(
            **shared,
            strategy="reduce-broadcast",
            workers=nodes * each,
            transport="mpi",
            lr_scaling="linear",
            warmup_epochs=0,
            batch_per_worker=128,
            **ask.nodes(nodes, workers_per_node=each, bandwidth="10gbit", cpus=QUARTER * each),
        )
        for nodes, each in LAYOUTS
    }
    gpu = {"gpu": RunConfig(**shared, strategy="local", batch_size=128, device="cuda")} if ask.gpu else {}
    return found | gpu


def is_alexnet(config: RunConfig) -> bool:
    return config.model == "alexnet"


FOUR_NODES = "10 steps of 196, and 1,024 test samples of 10,000"
REPORTS: dict[str, ReportRuns] = {
    "cs744-vgg11-2317": ReportRuns(vgg11(2317, "7gbit"), FOUR_NODES, {"full": 36, "short": 3, "smoke": 2}),
    "cs744-vgg11-14": ReportRuns(vgg11(14, "1gbit"), FOUR_NODES, {"full": 45, "short": 3, "smoke": 2}),
    "hpml-lab4": ReportRuns(
        hpml,
        "2 to 4 steps of each batch size instead of two epochs; large batches with mnist-cnn on 6,000 samples of "
        "MNIST instead of resnet18 on CIFAR-10",
        {"full": 620, "short": 9, "smoke": 4},
        more=lab_more,
    ),
    "cs744-tensorflow": ReportRuns(
        tensorflow,
        "6,000 training samples of 60,000; AlexNet with 4 steps, or 2 with batches of 512",
        {"full": 60, "short": 14, "smoke": 6},
        own_processes=is_alexnet,
    ),
    "mpi-mnist": ReportRuns(
        mpi_mnist, "6,000 training samples of 60,000, 2 epochs of 5", {"full": 70, "short": 6, "smoke": 2}
    ),
}
