"""What to run: one field per setting, checked when it is made, the same from flags, TOML, JSON or Python.

A field left at None is worked out by ``resolved`` from the others and from the machine.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from gradsync.errors import InputError, unknown
from gradsync.values import at_least, check_types, flag

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Buffers = Literal["local", "broadcast", "average"]
Transport = Literal["auto", "gloo", "nccl", "mpi"]

LEARNING_RATE = {"sgd": 0.01, "adam": 0.001, "lars": 1.0}
WEIGHT_DECAY = {"sgd": 1e-4, "adam": 0.0, "lars": 1e-4}

WITH_SERVERS = ("ps-sync", "ps-async")
ONE_PROCESS = ("local", "data-parallel")
LARGE_BATCH = 1024  # above it, batches that grow with the workers get the remedies of Goyal et al. by default

# Two ways to say one thing: a flag for one replaces what a file says about the other.
ALTERNATIVES = [("batch_size", "batch_per_worker"), ("epochs", "steps")]


@dataclass(kw_only=True)
class Settings:
    """Everything about a run except how many workers there are and how they agree."""

    model: str = "vgg11"
    """vgg11, resnet18, alexnet, mnist-cnn, logistic, or your own as package.module:function or file.py:function."""

    norm: Literal["batch", "none"] = "batch"
    """none takes BatchNorm out of the built-in models."""

    sync_bn: bool = False
    """BatchNorm statistics over the global batch instead of each worker's share."""

    data: str = "synthetic"
    """synthetic, cifar10, mnist, or your own as package.module:function (returns train and test Datasets)."""

    train_samples: int | None = None
    """Train on the first so many samples. Default: all; synthetic makes 2,560 (fewer of large images)."""

    test_samples: int | None = None
    """Test on the first so many samples. Default: all; synthetic makes 512."""

    augment: bool = True
    """Random crops and flips in training, where the data set has them (cifar10)."""

    loader_processes: int = 0
    """Loader processes per worker for your own Datasets; the built-in sets need none."""

    batch_size: int | None = None
    """Samples per step over all workers, split evenly. Default: 64."""

    batch_per_worker: int | None = None
    """Samples per step and worker, instead of --batch-size."""

    epochs: int | None = None
    """Passes over the training data. Default: 1."""

    steps: int | None = None
    """Stop after so many steps, instead of --epochs."""

    accumulate: int = 1
    """Compute each worker's share in so many pieces, one after another: large batches on little memory."""

    optimizer: Literal["sgd", "adam", "lars"] = "sgd"
    """Which update rule. lars: sgd with a step per layer that fits the size of its parameters."""

    lr: float | None = None
    """Learning rate. Default: 0.01 for sgd, 0.001 for adam, 1 for lars."""

    lr_scaling: Literal["none", "linear", "sqrt"] | None = None
    """Times the number of workers, or its root. Default: none; linear for --batch-per-worker above 1,024 in all."""

    warmup_epochs: float | None = None
    """Epochs in which the learning rate grows to its full size. Default: none; where it is scaled and the batch is
    above 1,024, 5 epochs, but at most a quarter of the run."""

    schedule: Literal["constant", "cosine", "step"] = "constant"
    """What becomes of the learning rate after that: cosine goes down to 0, step falls at each of --decay-epochs."""

    decay_epochs: tuple[int, ...] = (30, 60, 80)
    """With --schedule step: after which epochs it falls to a tenth."""

    label_smoothing: float = 0.0
    """Share of each label that is spread over all classes in training, for instance 0.1."""

    momentum: float = 0.9
    """Momentum of sgd and lars."""

    weight_decay: float | None = None
    """L2 penalty. Default: 1e-4 for sgd and lars, 0 for adam."""

    reshuffle: bool = True
    """Another order of the samples in every epoch; without it, the same one each time."""

    start: Literal["same", "own"] = "same"
    """own: every worker keeps the parameters it drew itself instead of getting rank 0's. To see what that does."""

    seed: int = 0
    """Decides parameters, shuffles and augmentation."""

    precision: Literal["fp64", "fp32", "bf16"] = "fp32"
    """bf16 is autocast over float32 parameters."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto takes a GPU where there is one."""

    threads: int | None = None
    """Compute threads per worker. Default: cores ÷ workers, at least 1."""

    buffers: Buffers | None = None
    """BatchNorm statistics: each worker its own, rank 0's for all, or the average. Default: the strategy's."""

    eval: bool = True
    """Test after every epoch and at the end."""

    log_every: int = 20
    """Steps between two lines of output when it is not a terminal."""

    keep_going: bool = False
    """Train on when the loss is not a number."""

    measure: bool = True
    """Stamp phases and collectives, count bytes, sample the host. Without it only the time per step is known."""

    inject: str | None = None
    """Make a rank slow: rank=2,where=data|forward|backward|link,ms=200 (link: each of its messages leaves late)."""

    tensorboard: bool = False
    """Write event files for TensorBoard into the run folder while it trains."""

    save_model: bool = False
    """Keep the trained parameters and buffers as model.pt in the run folder: rank 0's, or the servers' last ones."""

    server_placement: Literal["own", "shared"] = "own"
    """Parameter servers as processes of their own, or each within the process of a worker."""

    launcher: Literal["local", "mpi"] | None = None
    """What starts the processes: gradsync itself, or mpiexec. Default: mpi for --transport mpi, else local."""

    mpiexec: str | None = None
    """The mpiexec to use. Default: the one beside this python, else the one on the path."""

    out: str = "runs"
    """Folder in which each run makes its own."""

    def __post_init__(self) -> None:
        check_types(self)
        parse_injection(self.inject)
        for name in ("batch_size", "batch_per_worker", "epochs", "steps", "threads", "log_every", "accumulate"):
            at_least(self, name, 1)
        for name in ("train_samples", "test_samples"):
            at_least(self, name, 1)
        for name in ("loader_processes", "seed", "lr", "momentum", "weight_decay", "warmup_epochs"):
            at_least(self, name, 0)
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"--label-smoothing is {self.label_smoothing}: it must be 0 or more, and less than 1.")
        self.decay_epochs = tuple(self.decay_epochs)  # JSON and TOML have lists
        for one, other in ALTERNATIVES:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise InputError(f"you set both {flag(one)} and {flag(other)}: give one of them.")


@dataclass(kw_only=True)
class RunConfig(Settings):
    """One run: the settings, the workers, and one way for them to agree."""

    workers: int | None = None
    """Processes that share each batch. Default: 1 for local, else 2."""

    strategy: str | None = None
    """local, gather-scatter, reduce-broadcast, all-reduce, ring, bucketed, ddp, data-parallel, ps-sync, ps-async,
    none, or your own as file.py:Class. Default: local for one worker, else ddp (bucketed over MPI)."""

    servers: int | None = None
    """Parameter servers, which divide the parameters among them (ps-sync, ps-async). Default: 1."""

    transport: Transport = "auto"
    """What carries the messages. auto: gloo between CPUs, nccl where every worker has a GPU of its own."""

    options: dict[str, str] = field(default_factory=dict)
    """Options of the strategy, one flag each: --options.bucket-mb 25 (ddp)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "workers", 1)
        at_least(self, "servers", 0)
        self.options = as_text(self.options)

    def resolved(self) -> RunConfig:
        """The same run with every default worked out. Refuses what does not go together."""
        default = "bucketed" if "mpi" in (self.transport, self.launcher) else "ddp"
        strategy = self.strategy or ("local" if self.workers in (None, 1) and not self.servers else default)
        workers = self.workers or (1 if strategy == "local" else 2)
        if strategy == "local" and workers > 1:
            raise InputError(
                f"you set --strategy local but --workers {workers}: local trains in one process. "
                "HINT: leave --workers out, or choose ddp, all-reduce or gather-scatter."
            )
        if self.servers == 0 and strategy in WITH_SERVERS:
            raise InputError(f"--servers is 0: {strategy} needs at least one.")
        batch_size = self.batch_size or (self.batch_per_worker or 0) * workers or 64
        check_split(batch_size, workers)
        grown = bool(self.batch_per_worker) and batch_size > LARGE_BATCH and workers > 1
        found = replace(
            self,
            strategy=strategy,
            workers=workers,
            servers=self.servers or int(strategy in WITH_SERVERS),
            launcher=self.launcher or ("mpi" if self.transport == "mpi" else "local"),
            transport=self.resolved_transport(strategy),
            device="cpu" if "mpi" in (self.transport, self.launcher) and self.device == "auto" else self.device,
            batch_size=batch_size,
            batch_per_worker=None,
            epochs=self.epochs or (None if self.steps else 1),
            lr=LEARNING_RATE[self.optimizer] if self.lr is None else self.lr,
            lr_scaling=self.lr_scaling or ("linear" if grown else "none"),
            weight_decay=WEIGHT_DECAY[self.optimizer] if self.weight_decay is None else self.weight_decay,
            threads=self.threads or max(1, available_cores() // workers),
        )
        found.refuse_contradictions()
        return found

    def resolved_transport(self, strategy: str) -> Transport:
        """Gloo where servers are: NCCL knows no messages that several threads send at their own times."""
        if self.transport != "auto":
            return self.transport
        return "mpi" if self.launcher == "mpi" else "gloo" if strategy in WITH_SERVERS else "auto"

    def refuse_contradictions(self) -> None:
        """Of a resolved config."""
        assert self.strategy and self.workers is not None and self.servers is not None
        injection = parse_injection(self.inject)
        if injection and injection.rank >= self.trainers:
            there = f"there are ranks 0 to {self.trainers - 1}" if self.trainers > 1 else "there is only rank 0"
            raise InputError(f"--inject names rank {injection.rank}: {there}.")
        if injection and injection.where == "link" and self.processes == 1:
            raise InputError("--inject slows a link, but one worker sends nothing: use two or more.")
        if (self.launcher == "mpi") != (self.transport == "mpi"):
            raise InputError(
                f"you set --launcher {self.launcher} and --transport {self.transport}: what mpiexec starts talks "
                "over MPI, and nothing else does. HINT: --transport mpi alone is enough."
            )
        if self.transport == "mpi" and self.strategy == "ddp":
            raise InputError(
                "PyTorch's ddp does not run over MPI. Use bucketed, which computes the same, or another transport."
            )
        if self.transport == "mpi" and self.device == "cuda":
            raise InputError("--transport mpi carries what is in the host's memory: use --device cpu, or gloo.")
        if self.strategy == "data-parallel" and self.sync_bn:
            raise InputError("data-parallel has no messages between replicas: --sync-bn needs other strategies.")
        if self.strategy in WITH_SERVERS and self.transport == "nccl":
            raise InputError(f"{self.strategy} sends at times of its own, which nccl does not know: use gloo.")
        if self.strategy not in WITH_SERVERS:
            if self.servers:
                raise InputError(f"--servers is for {' and '.join(WITH_SERVERS)}: {self.strategy} has none.")
            return
        if self.server_placement == "shared" and self.servers > self.workers:
            raise InputError(
                f"{self.servers} servers cannot share the processes of {self.workers} workers: use fewer, or "
                "--server-placement own."
            )
        if self.sync_bn or self.buffers not in (None, "local") or self.start == "own":
            raise InputError(
                f"{self.strategy}: workers talk to servers only. --sync-bn and --buffers other than local need them "
                "to talk to each other, and with --start own they would all still begin with the servers' parameters."
            )

    @property
    def trainers(self) -> int:
        """Processes that train; of a resolved config, like the next three."""
        assert self.workers
        return 1 if self.strategy in ONE_PROCESS else self.workers

    @property
    def server_ranks(self) -> tuple[int, ...]:
        assert self.servers is not None
        first = self.trainers if self.server_placement == "own" else 0
        return tuple(range(first, first + self.servers))

    @property
    def processes(self) -> int:
        return max(self.trainers, 1 + max(self.server_ranks, default=0))

    @property
    def spare_workers(self) -> int:
        """How many workers a run can go on without."""
        assert self.workers
        if self.strategy == "ps-async":
            return self.workers - 1
        needed = self.options.get("aggregate", "")
        return self.workers - int(needed) if self.strategy == "ps-sync" and needed.isdigit() else 0

    @property
    def lr_factor(self) -> float:
        assert self.workers
        return {"linear": float(self.workers), "sqrt": self.workers**0.5}.get(self.lr_scaling or "none", 1.0)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Injection:
    """A delay one rank gets in every step, to see what it does to the others."""

    rank: int
    where: str
    seconds: float

    PLACES: ClassVar = ("data", "forward", "backward", "link")

    def delay(self, rank: int, where: str) -> float:
        return self.seconds if (rank, where) == (self.rank, self.where) else 0.0


def parse_injection(text: str | None) -> Injection | None:
    """``rank=2,where=data,ms=200``, in any order."""
    if text is None:
        return None
    try:
        values = dict(item.split("=") for item in text.replace(" ", "").split(","))
        rank, where, milliseconds = int(values.pop("rank")), values.pop("where"), float(values.pop("ms"))
        if values or rank < 0 or where not in Injection.PLACES or not 0 <= milliseconds < math.inf:
            raise ValueError
    except (KeyError, ValueError):
        raise InputError(
            f"--inject is {text!r}: it must read rank=R,where=W,ms=T with a rank from 0, one of "
            f"{', '.join(Injection.PLACES)}, and milliseconds from 0. For instance rank=1,where=data,ms=200."
        ) from None
    return Injection(rank, where, milliseconds / 1e3)


def check_split(batch_size: int, workers: int) -> None:
    """A global batch must give every worker the same number of samples."""
    rest = batch_size % workers
    if rest:
        near = [n for n in (batch_size - rest, batch_size - rest + workers) if n > 0]
        raise InputError(
            f"a batch of {batch_size} does not split evenly over {workers} workers. "
            f"Use --batch-size {' or '.join(map(str, near))}, or set --batch-per-worker."
        )


def available_cores() -> int:
    """Cores this process may use, which containers and taskset make fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def as_text(options: dict[str, Any]) -> dict[str, str]:
    """Options travel as text; the strategy knows their types."""
    return {name.replace("_", "-"): str(value) for name, value in options.items()}


Config = TypeVar("Config", bound=Settings)


def read_file(path: Path, kind: type[Config]) -> dict[str, Any]:
    """The settings in a TOML file, or in the config.json of an earlier run."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the config file {path}: {error}.") from None
    try:
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not valid {path.suffix.lstrip('.').upper() or 'TOML'}: {error}.") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold a table of settings, not a {type(values).__name__}.")
    known = {item.name for item in fields(kind)}
    settings = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            raise unknown(f"setting in {path}:", key, known)
        settings[name] = value
    return settings


def load(path: Path) -> RunConfig:
    return RunConfig(**read_file(path, RunConfig))
