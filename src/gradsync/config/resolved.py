"""A resolved run: every setting worked out from those that were asked for, the strategy and this machine.

The command that starts a run resolves its settings, once, and writes them into the run folder as resolved.json.
Everything else reads them there, the ranks included: on a host with more or fewer cores, ``resolve`` would choose
another number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import ceil
from typing import Any, Literal

from gradsync.config.facts import Facts
from gradsync.config.injection import parse_injection
from gradsync.config.placement import FASTEST, Launcher
from gradsync.config.run import RunConfig, Settings, Transport, as_text, check_split
from gradsync.config.task import metrics_for
from gradsync.config.values import LIMITS, counted
from gradsync.errors import InputError

LEARNING_RATE = {"adam": 0.001, "adamw": 0.001, "lars": 1.0}
USUAL_LEARNING_RATE = 0.01
WEIGHT_DECAY = {"sgd": 1e-4, "adamw": 0.01, "lars": 1e-4}

NO_FP16 = "--precision fp16 needs a GPU: on a CPU use bf16, which has the range of fp32 and needs no scaled loss."

USUAL_OPTIMIZER = "sgd"
OPTIMIZER_FOR_MODEL = {
    "gpt": "adamw"
}  # after 24 steps of synthetic text, a test loss of 1.40 instead of 3.27 with sgd

LARGE_BATCH = 1024  # above it, batches that grow with the workers get the remedies of Goyal et al. by default
MOST_HERE = 1_024  # processes on one machine: each takes some 200 MB before it has computed anything


@dataclass(kw_only=True)
class Resolved(Settings):
    """One run as it is carried out. Every setting that needs a value has one, and contradictions are refused."""

    asked: RunConfig = field(repr=False, compare=False)
    """What it was resolved from; config.json holds that, resolved.json does not."""

    workers: int
    strategy: str
    servers: int
    transport: Transport
    options: dict[str, str]
    launcher: Launcher = field()  # without field() the None of the inherited setting would be its default
    workers_per_node: int = field()
    batch_size: int = field()
    optimizer: str = field()
    lr: float = field()
    lr_scaling: Literal["none", "linear", "sqrt"] = field()
    weight_decay: float = field()
    threads: int = field()

    has_servers: bool
    in_one_process: bool
    asynchronous: bool
    spare_workers: int
    """How many workers the run can go on without."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.options = as_text(self.options)
        refuse_contradictions(self)

    @property
    def trainers(self) -> int:
        """Processes that train."""
        return 1 if self.in_one_process else self.workers

    @property
    def server_ranks(self) -> tuple[int, ...]:
        first = self.trainers if self.server_placement == "own" else 0
        return tuple(range(first, first + self.servers))

    @property
    def processes(self) -> int:
        return max(self.trainers, 1 + max(self.server_ranks, default=0))

    @property
    def places(self) -> list[int]:
        """The node of every rank, from 0: the workers in order, then the servers, on free nodes if there are any."""
        nodes = self.nodes or 1
        workers = [rank // self.workers_per_node for rank in range(self.trainers)]
        free = list(range(max(workers) + 1, nodes)) or list(range(nodes))
        return workers + [free[n % len(free)] for n in range(self.processes - self.trainers)]

    @property
    def core_share(self) -> float | None:
        """The share of a core that an emulated node gives each compute thread; None: no limit."""
        return None if self.cpus is None else min(1.0, self.cpus / (self.threads * self.workers_per_node))

    @property
    def lr_factor(self) -> float:
        return {"linear": float(self.workers), "sqrt": self.workers**0.5}.get(self.lr_scaling, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """The content of resolved.json."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "asked"}


def from_dict(values: Mapping[str, Any], asked: RunConfig | None = None) -> Resolved:
    """The inverse of ``to_dict``. Settings this version does not know are ignored, as in config.json.

    Without ``asked``, every resolved setting counts as asked for.
    """
    known = {name: values[name] for name in names_of(Resolved) if name in values}
    for item in fields(Resolved):
        if item.name in NEEDED and item.name not in known:
            raise InputError(f"{item.name} is missing.")
    in_full = {name: known[name] for name in names_of(RunConfig) if name in known}
    return Resolved(**{**known, "asked": asked or RunConfig(**in_full)})


def names_of(kind: type[Settings]) -> list[str]:
    return [item.name for item in fields(kind)]


NEEDED = {name for name in Resolved.__annotations__ if name != "asked"}


def strategy_name(asked: RunConfig) -> str:
    """The strategy asked for, or the default: its name is needed before its facts can be looked up."""
    over_mpi = "mpi" in (asked.transport, asked.launcher)
    says_where = asked.nodes or asked.workers_per_node or asked.hosts
    workers = asked.workers or (asked.default_workers if says_where else 1)
    return asked.strategy or ("local" if workers == 1 and not asked.servers else "bucketed" if over_mpi else "ddp")


def worker_count(asked: RunConfig) -> int:
    return asked.workers or (1 if strategy_name(asked) == "local" else asked.default_workers)


def suited(asked: RunConfig, facts: Facts) -> RunConfig:
    """The same run without the shared settings that do not apply to its strategy: for studies of several strategies.

    Servers are kept for strategies that have them, an option for those that know it; a strategy in one process gets
    no transport, mpiexec or injected delay. A run that is asked for on its own is refused instead.
    """
    found = replace(
        asked,
        servers=asked.servers if facts.has_servers else None,
        options={name: value for name, value in asked.options.items() if name in facts.option_names},
    )
    if not facts.in_one_process:
        return found
    launcher = None if asked.launcher == "mpi" else asked.launcher
    return replace(found, transport="auto", inject=None, launcher=launcher, mpiexec=None)


def resolve(asked: RunConfig, facts: Facts, cores: int | None = None) -> Resolved:
    """Work out every default. ``facts``: of the strategy ``strategy_name`` returns; ``cores``: of this machine."""
    strategy, workers = strategy_name(asked), worker_count(asked)
    if strategy == "local" and workers > 1:
        raise InputError(
            f"you set --strategy local but --workers {workers}: local trains in one process. "
            "HINT: leave --workers out, or choose ddp, all-reduce or gather-scatter."
        )
    if asked.servers == 0 and facts.has_servers:
        raise InputError(f"--servers is 0: {strategy} needs at least one.")
    if transport_of(asked, facts) == "mpi" and not facts.over_mpi:
        raise InputError(
            f"{strategy} does not run over MPI. Use bucketed, which computes the same, or another transport."
        )
    if asked.precision == "fp16" and asked.device == "cpu":  # a script that is not ours may do it nevertheless
        raise InputError(NO_FP16)
    batch_size = global_batch(asked, workers)
    optimizer = optimizer_for(asked)
    on_nodes = asked.nodes or asked.hosts or asked.is_emulated or asked.launcher == "slurm"
    if asked.workers_per_node not in (None, workers) and not on_nodes:
        raise InputError(
            f"--workers-per-node is {asked.workers_per_node} and --workers {workers}, but there are no nodes. "
            f"HINT: add --nodes {ceil(workers / (asked.workers_per_node or 1))}."
        )
    nodes, workers_per_node = spread_over_nodes(asked, 1 if facts.in_one_process else workers)
    grown = bool(asked.batch_per_worker) and batch_size > LARGE_BATCH and workers > 1
    worked_out: dict[str, Any] = {
        "strategy": strategy,
        "workers": workers,
        "servers": asked.servers or int(facts.has_servers),
        "launcher": asked.launcher or ("mpi" if asked.transport == "mpi" else "torchrun" if asked.hosts else "local"),
        "transport": transport_of(asked, facts),
        "device": "cpu" if "mpi" in (asked.transport, asked.launcher) and asked.device == "auto" else asked.device,
        "nodes": nodes if on_nodes else None,  # None: this machine alone
        "workers_per_node": workers_per_node,
        "batch_size": batch_size,
        "batch_per_worker": None,
        "epochs": asked.epochs or (None if asked.steps else 1),
        "metric": metrics_for(asked.metric, asked.loss, asked.model),
        "optimizer": optimizer,
        "lr": usual_rate(optimizer) if asked.lr is None else asked.lr,
        "lr_scaling": asked.lr_scaling or ("linear" if grown else "none"),
        "weight_decay": WEIGHT_DECAY.get(optimizer, 0.0) if asked.weight_decay is None else asked.weight_decay,
        "threads": asked.threads or threads_for(asked, workers, cores or available_cores()),
    }
    return Resolved(
        **asked.to_dict() | worked_out,
        asked=asked,
        has_servers=facts.has_servers,
        in_one_process=facts.in_one_process,
        asynchronous=facts.asynchronous,
        spare_workers=facts.spare_workers,
    )


def optimizer_for(asked: Settings) -> str:
    return asked.optimizer or OPTIMIZER_FOR_MODEL.get(asked.model, USUAL_OPTIMIZER)


def usual_rate(optimizer: str) -> float:
    return LEARNING_RATE.get(optimizer, USUAL_LEARNING_RATE)


def global_batch(asked: RunConfig, workers: int) -> int:
    batch_size = asked.batch_size or (asked.batch_per_worker or 0) * workers or 64
    if batch_size > LIMITS["batch_size"][1]:
        raise InputError(
            f"{workers} workers with --batch-per-worker {asked.batch_per_worker} make a batch of {batch_size:,} "
            f"samples: the limit is {LIMITS['batch_size'][1]:,}."
        )
    check_split(batch_size, workers)
    return batch_size


def spread_over_nodes(asked: RunConfig, trainers: int) -> tuple[int, int]:
    """Nodes, and workers on each. Defaults: as few nodes as hold all workers, and as few workers on each."""
    each = asked.workers_per_node
    nodes = asked.nodes or len(asked.hosts)
    if not nodes:
        nodes = ceil(trainers / (each or 1)) if asked.is_emulated or (each and asked.launcher == "slurm") else 1
        each = each if nodes > 1 else None
    each = each or ceil(trainers / nodes)
    if trainers > nodes * each:
        raise InputError(
            f"{trainers} workers do not fit on {counted(nodes, 'node')} with {each} each: "
            "give more nodes or more --workers-per-node."
        )
    return nodes, each


def transport_of(asked: RunConfig, facts: Facts) -> Transport:
    """Gloo if there are servers: NCCL cannot carry the unsynchronized sends of several threads."""
    if asked.transport != "auto":
        return asked.transport
    return "mpi" if asked.launcher == "mpi" else "gloo" if facts.has_servers else "auto"


def threads_for(asked: RunConfig, workers: int, cores: int) -> int:
    """A worker's share of the cores of this machine, or of its node if more is known about the node."""
    if asked.launcher == "slurm":
        return 1
    _, per_node = spread_over_nodes(asked, workers)
    if asked.cpus:
        return max(1, int(asked.cpus / per_node))
    return max(1, cores // (per_node if asked.hosts else workers))


def available_cores() -> int:
    """Cores this process may use: containers and taskset can make them fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def refuse_contradictions(config: Resolved) -> None:
    if config.processes > MOST_HERE and config.launcher != "slurm" and not config.hosts:
        raise InputError(
            f"the run needs {config.processes:,} processes on this machine: the limit is {MOST_HERE:,}. "
            "HINT: fewer --workers and --servers, or several machines: --hosts, or --launcher slurm."
        )
    refuse_injection(config)
    if config.launcher != "slurm" and (config.launcher == "mpi") != (config.transport == "mpi"):
        raise InputError(
            f"you set --launcher {config.launcher} and --transport {config.transport}: processes started "
            "by mpiexec communicate over MPI, and no others do. HINT: --transport mpi alone is enough."
        )
    if config.transport == "mpi" and config.device == "cuda":
        raise InputError("--transport mpi carries host memory only: use --device cpu, or gloo.")
    if config.in_one_process and config.workers > 1 and config.sync_bn:
        raise InputError(
            f"{config.strategy} has no messages between replicas: --sync-bn needs a process for every worker."
        )
    if config.has_servers:
        refuse_what_servers_cannot(config)
    elif config.servers:
        raise InputError(
            f"--servers is for strategies with parameter servers, such as ps-sync: {config.strategy} has none."
        )


def refuse_injection(config: Resolved) -> None:
    injection = parse_injection(config.inject)
    if not injection:
        return
    if injection.rank >= config.trainers:
        there = f"there are ranks 0 to {config.trainers - 1}" if config.trainers > 1 else "there is only rank 0"
        raise InputError(f"--inject names rank {injection.rank}: {there}.")
    if injection.where == "link" and config.processes == 1:
        raise InputError("--inject slows a link, but one worker sends nothing: use two or more.")
    if (injection.bits_per_second or 0) > (config.bits_per_second or FASTEST):
        raise InputError(f"--inject makes a link faster than the others: --bandwidth is {config.bandwidth}.")
    if injection.bits_per_second and not config.is_emulated:
        raise InputError(
            "--inject with mbit makes the link of an emulated node slower, and this run has none. HINT: add --nodes "
            f"{config.workers}, or give ms=..., which delays each message of the rank."
        )


def refuse_what_servers_cannot(config: Resolved) -> None:
    if config.precision == "fp16":
        raise InputError(f"{config.strategy}: servers update without a scaled loss, which fp16 needs. Use bf16.")
    if config.clip_norm is not None and config.servers > 1:
        raise InputError(
            f"--clip-norm is for the norm of all gradients, of which each of {config.servers} servers has a part. "
            "Use --servers 1."
        )
    if config.transport == "nccl":
        raise InputError(f"{config.strategy} uses unsynchronized sends, which NCCL cannot carry: use gloo.")
    if config.server_placement == "shared" and config.servers > config.workers:
        raise InputError(
            f"{config.servers} servers cannot share the processes of {config.workers} workers: use fewer, or "
            "--server-placement own."
        )
    if config.sync_bn or config.buffers not in (None, "local") or config.start == "own":
        raise InputError(
            f"{config.strategy}: workers talk to servers only. --sync-bn and --buffers other than local need them "
            "to talk to each other, and with --start own they would all still begin with the servers' parameters."
        )
