"""What to run: one field per setting, checked when it is made, the same from flags, TOML, JSON or Python.

A field left at None is worked out by ``resolved`` from the others and from the machine.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from math import ceil
from pathlib import Path
from typing import Any, Literal, TypeVar

from gradsync.config.injection import parse_injection
from gradsync.config.placement import FASTEST, Launcher, Placement
from gradsync.config.training import Training
from gradsync.errors import InputError, unknown
from gradsync.values import LIMITS, check_values, counted, shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Transport = Literal["auto", "gloo", "nccl", "mpi"]

LEARNING_RATE = {"sgd": 0.01, "adam": 0.001, "lars": 1.0}
WEIGHT_DECAY = {"sgd": 1e-4, "adam": 0.0, "lars": 1e-4}

WITH_SERVERS = ("ps-sync", "ps-async")
ONE_PROCESS = ("local", "data-parallel")
LARGE_BATCH = 1024  # above it, batches that grow with the workers get the remedies of Goyal et al. by default
LARGEST_OPTION = 10**18
LONGEST_FILE = 1_000_000
MOST_HERE = 1_024  # processes on one machine: each takes some 200 MB before it has computed anything


@dataclass(kw_only=True)
class Settings(Placement, Training):  # --help lists the last one's flags first
    """Everything about a run except how many workers there are and how they agree."""

    def __post_init__(self) -> None:
        check_values(self)
        self.check_training()
        self.check_placement()


@dataclass(kw_only=True)
class RunConfig(Settings):
    """One run: the settings, the workers, and one way for them to agree."""

    workers: int | None = None
    """Processes that share each batch. Default: 1 for local, else --workers-per-node on every node, else 2."""

    strategy: str | None = None
    """local, gather-scatter, reduce-broadcast, all-reduce, ring, bucketed, ddp, data-parallel, ps-sync, ps-async,
    none, or your own as file.py:Class. Default: local for one worker on one node, else ddp (bucketed over MPI)."""

    servers: int | None = None
    """Parameter servers, which divide the parameters among them (ps-sync, ps-async). Default: 1."""

    transport: Transport = "auto"
    """What carries the messages. auto: gloo between CPUs, nccl where every worker has a GPU of its own."""

    options: dict[str, str] = field(default_factory=dict)
    """Options of the strategy, one flag each: --options.bucket-mb 25 (ddp)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.options = as_text(self.options)

    def resolved(self) -> RunConfig:
        """The same run with every default worked out. Refuses what does not go together."""
        default = "bucketed" if "mpi" in (self.transport, self.launcher) else "ddp"
        says_where = self.nodes or self.workers_per_node or self.hosts
        asked = self.workers or (self.default_workers if says_where else 1)
        strategy = self.strategy or ("local" if asked == 1 and not self.servers else default)
        workers = self.workers or (1 if strategy == "local" else self.default_workers)
        if strategy == "local" and workers > 1:
            raise InputError(
                f"you set --strategy local but --workers {workers}: local trains in one process. "
                "HINT: leave --workers out, or choose ddp, all-reduce or gather-scatter."
            )
        if self.servers == 0 and strategy in WITH_SERVERS:
            raise InputError(f"--servers is 0: {strategy} needs at least one.")
        batch_size = self.batch_size or (self.batch_per_worker or 0) * workers or 64
        if batch_size > LIMITS["batch_size"][1]:
            raise InputError(
                f"{workers} workers with --batch-per-worker {self.batch_per_worker} make a batch of {batch_size:,} "
                f"samples: it may have {LIMITS['batch_size'][1]:,}."
            )
        check_split(batch_size, workers)
        on_nodes = self.nodes or self.hosts or self.is_emulated or self.launcher == "slurm"
        if self.workers_per_node not in (None, workers) and not on_nodes:
            raise InputError(
                f"--workers-per-node is {self.workers_per_node} and --workers {workers}, but there are no nodes. "
                f"HINT: add --nodes {ceil(workers / (self.workers_per_node or 1))}."
            )
        nodes, workers_per_node = self.resolved_nodes(1 if strategy in ONE_PROCESS else workers)
        grown = bool(self.batch_per_worker) and batch_size > LARGE_BATCH and workers > 1
        found = replace(
            self,
            strategy=strategy,
            workers=workers,
            servers=self.servers or int(strategy in WITH_SERVERS),
            launcher=self.resolved_launcher,
            transport=self.resolved_transport(strategy),
            device="cpu" if "mpi" in (self.transport, self.launcher) and self.device == "auto" else self.device,
            nodes=nodes if on_nodes else None,  # None: no node but this machine
            workers_per_node=workers_per_node,
            batch_size=batch_size,
            batch_per_worker=None,
            epochs=self.epochs or (None if self.steps else 1),
            lr=LEARNING_RATE[self.optimizer] if self.lr is None else self.lr,
            lr_scaling=self.lr_scaling or ("linear" if grown else "none"),
            weight_decay=WEIGHT_DECAY[self.optimizer] if self.weight_decay is None else self.weight_decay,
            threads=self.threads or self.default_threads(workers),
        )
        found.refuse_contradictions()
        return found

    @property
    def default_workers(self) -> int:
        nodes = self.nodes or len(self.hosts)
        return nodes * (self.workers_per_node or 1) if nodes else self.workers_per_node or 2

    @property
    def resolved_launcher(self) -> Launcher:
        return self.launcher or ("mpi" if self.transport == "mpi" else "torchrun" if self.hosts else "local")

    def resolved_nodes(self, trainers: int) -> tuple[int, int]:
        """Nodes, and workers on each: of those not given, as few nodes as hold all and as few workers on each."""
        each = self.workers_per_node
        nodes = self.nodes or len(self.hosts)
        if not nodes:
            nodes = ceil(trainers / (each or 1)) if self.is_emulated or (each and self.launcher == "slurm") else 1
            each = each if nodes > 1 else None
        each = each or ceil(trainers / nodes)
        if trainers > nodes * each:
            raise InputError(
                f"{trainers} workers do not fit on {counted(nodes, 'node')} with {each} each: "
                "give more nodes or more --workers-per-node."
            )
        return nodes, each

    def default_threads(self, workers: int) -> int:
        """A worker's share of the cores: of this machine, or of its node where more is known about it."""
        if self.launcher == "slurm":
            return 1
        _, per_node = self.resolved_nodes(workers)
        if self.cpus:
            return max(1, int(self.cpus / per_node))
        return max(1, available_cores() // (per_node if self.hosts else workers))

    def resolved_transport(self, strategy: str) -> Transport:
        """Gloo where servers are: NCCL knows no messages that several threads send at their own times."""
        if self.transport != "auto":
            return self.transport
        return "mpi" if self.launcher == "mpi" else "gloo" if strategy in WITH_SERVERS else "auto"

    def refuse_contradictions(self) -> None:
        """Of a resolved config."""
        assert self.strategy and self.workers is not None and self.servers is not None
        if self.processes > MOST_HERE and self.launcher != "slurm" and not self.hosts:
            raise InputError(
                f"the run is for {self.processes:,} processes on this machine: it may have {MOST_HERE:,}. "
                "HINT: fewer --workers and --servers, or several machines: --hosts, or --launcher slurm."
            )
        injection = parse_injection(self.inject)
        if injection and injection.rank >= self.trainers:
            there = f"there are ranks 0 to {self.trainers - 1}" if self.trainers > 1 else "there is only rank 0"
            raise InputError(f"--inject names rank {injection.rank}: {there}.")
        if injection and injection.where == "link" and self.processes == 1:
            raise InputError("--inject slows a link, but one worker sends nothing: use two or more.")
        links = self.bits_per_second or FASTEST
        if injection and (injection.bits_per_second or 0) > links:
            raise InputError(f"--inject makes a link faster than the others: --bandwidth is {self.bandwidth}.")
        if injection and injection.bits_per_second and not self.is_emulated:
            raise InputError(
                "--inject with mbit makes the link of an emulated node slower, and here is none. HINT: add --nodes "
                f"{self.workers}, or give ms=..., which delays each message of the rank."
            )
        if self.launcher != "slurm" and (self.launcher == "mpi") != (self.transport == "mpi"):
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
        """Processes that train; of a resolved config, like all that follow."""
        assert self.workers
        return 1 if self.strategy in ONE_PROCESS else self.workers

    @property
    def server_ranks(self) -> tuple[int, ...]:
        assert self.servers is not None
        first = self.trainers if self.server_placement == "own" else 0
        return tuple(range(first, first + self.servers))

    @property
    def places(self) -> list[int]:
        """For every rank the node it is on, from 0: worker after worker, then servers on free nodes if there are."""
        assert self.workers_per_node
        nodes = self.nodes or 1
        workers = [rank // self.workers_per_node for rank in range(self.trainers)]
        free = list(range(max(workers) + 1, nodes)) or list(range(nodes))
        return workers + [free[n % len(free)] for n in range(self.processes - self.trainers)]

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
    def core_share(self) -> float | None:
        """What an emulated node lets a compute thread have of a core; None: all of it."""
        assert self.threads and self.workers_per_node
        return None if self.cpus is None else min(1.0, self.cpus / (self.threads * self.workers_per_node))

    @property
    def lr_factor(self) -> float:
        assert self.workers
        return {"linear": float(self.workers), "sqrt": self.workers**0.5}.get(self.lr_scaling or "none", 1.0)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


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
    for name, value in options.items():
        if not isinstance(value, (str, int, float)) or (isinstance(value, int) and abs(value) > LARGEST_OPTION):
            raise InputError(f"--options.{name} is {shown(value)}: it must be text, true, false, or a number.")
    return {name.replace("_", "-"): str(value) for name, value in options.items()}


Config = TypeVar("Config", bound=Settings)


def read_file(path: Path, kind: type[Config]) -> dict[str, Any]:
    """The settings in a TOML file, or in the config.json of an earlier run."""
    return settings_in(read_values(path), path, kind)


def read_values(path: Path) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LONGEST_FILE + 1)
    except (OSError, ValueError) as error:  # not UTF-8, or a path with a zero in it
        raise InputError(f"cannot read the config file {path}: {error}.") from None
    if len(text) > LONGEST_FILE:
        raise InputError(f"{path} is no config file: it has more than {LONGEST_FILE:,} characters.")
    form = "JSON" if path.suffix == ".json" else "TOML"
    try:
        values = json.loads(text) if form == "JSON" else tomllib.loads(text)
    except ValueError as error:  # also of a number with more than 4,300 digits
        raise InputError(f"{path} is not valid {form}: {error}.") from None
    except RecursionError:
        raise InputError(f"{path} is not valid {form}: its tables and lists are nested too deeply.") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold a table of settings, not a {type(values).__name__}.")
    return values


def settings_in(values: dict[str, Any], path: Path, kind: type[Config]) -> dict[str, Any]:
    known = {item.name for item in fields(kind)}
    settings = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            raise unknown(f"setting in {path}:", key, known)
        if name in settings:
            raise InputError(f"{path} sets {name} twice, as {key} and with the other dash: leave one out.")
        settings[name] = value
    return settings


def load(path: Path) -> RunConfig:
    return RunConfig(**read_file(path, RunConfig))
