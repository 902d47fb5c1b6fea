"""Where a run takes place: who starts its processes, on how many nodes, and what these are like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradsync.config.values import check_values, quantity
from gradsync.errors import InputError

RATES = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3, "bit": 1.0}
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
BYTES_OF_MEMORY = {"GB": 1e9, "MB": 1e6, "KB": 1e3, "G": 1e9, "M": 1e6}

SLOWEST, FASTEST = 1e4, 32e9  # what the kernel counts in 32 bits; no host moves more between namespaces anyway
LONGEST_LATENCY = 60.0
LEAST_MEMORY, MOST_MEMORY = 3e8, 1e14  # with 300 MB torchrun and a rank of the smallest model are still killed

Launcher = Literal["local", "torchrun", "mpi", "slurm"]


@dataclass(kw_only=True)
class Shape:
    """The shape of an emulated cluster: how many nodes, and what each has."""

    nodes: int | None = None
    """Nodes to run on: of --hosts, of a Slurm job, else of an emulated cluster made for the run. Default: this
    machine alone, or as many as --hosts names."""

    bandwidth: str | None = None
    """Emulated: bandwidth of each node's link, per direction, for instance 1gbit. Default: as fast as the host."""

    latency: str | None = None
    """Emulated: one-way latency between nodes, for instance 0.2ms (needs netem). Default: none added."""

    cpus: float | None = None
    """Emulated: cores of each node, for instance 0.5. Default: no limit."""

    memory: str | None = None
    """Emulated: memory of each node, shared by its processes, for instance 4GB. Default: no limit."""

    def __post_init__(self) -> None:
        check_values(self)
        self.check_shape()

    def check_shape(self) -> None:
        bits = self.bits_per_second
        if bits is not None and not SLOWEST <= bits <= FASTEST:
            raise InputError(f"--bandwidth is {self.bandwidth}: it must be from 10kbit to 32gbit.")
        if self.latency_seconds is not None and not 0 < self.latency_seconds <= LONGEST_LATENCY:
            raise InputError(
                f"--latency is {self.latency}: it must be more than 0s, and at most {LONGEST_LATENCY:g}s."
            )
        if self.memory_bytes is not None and not LEAST_MEMORY < self.memory_bytes <= MOST_MEMORY:
            raise InputError(
                f"--memory is {self.memory}: it must be more than 300MB, which one worker takes before it has "
                "computed anything, and at most 100000GB."
            )

    @property
    def bits_per_second(self) -> float | None:
        return quantity("bandwidth", self.bandwidth, RATES, "1gbit")

    @property
    def latency_seconds(self) -> float | None:
        return quantity("latency", self.latency, TIMES, "0.2ms")

    @property
    def memory_bytes(self) -> float | None:
        return quantity("memory", self.memory, BYTES_OF_MEMORY, "4GB")


@dataclass(kw_only=True)
class Placement(Shape):
    """The flags that say where to run, the same for every command that trains."""

    workers_per_node: int | None = None
    """Workers on each node. Default: 1, or as many as it takes."""

    cluster: str | None = None
    """Name of the emulated cluster to run on (gradsync cluster up)."""

    launcher: Launcher | None = None
    """What starts the processes: gradsync itself (local), torchrun on --hosts over ssh, mpiexec, or Slurm.
    Default: mpi for --transport mpi, torchrun with --hosts, else local."""

    hosts: tuple[str, ...] = ()
    """Hosts for torchrun or mpi, for instance a,b,c,d; the rendezvous is on the first one."""

    ssh: str = "ssh"
    """Command that reaches the hosts, for instance 'ssh -p 2222'."""

    remote_python: str | None = None
    """Python to start on the hosts. Default: the path of this one."""

    mpiexec: str | None = None
    """mpiexec to use. Default: the one next to this Python, else the one on PATH."""

    partition: str | None = None
    """Slurm: partition. Default: the cluster's."""

    account: str | None = None
    """Slurm: account. Default: yours."""

    time: str | None = None
    """Slurm: time limit, for instance 01:30:00. Default: the partition's."""

    sbatch: tuple[str, ...] = ()
    """Slurm: further options of sbatch, for instance --sbatch gres=gpu:4 constraint=a100."""

    timeout: float = 60.0
    """Seconds without a sign of life from a node after which the run fails and names it."""

    def check_placement(self) -> None:
        self.check_shape()
        self.hosts = tuple(filter(None, self.hosts))
        if self.hosts and self.is_shaped:
            raise InputError(
                "you set --hosts and the shape of an emulated cluster: real hosts cannot be shaped. "
                "HINT: leave out --hosts, or --bandwidth, --latency, --cpus, --memory and --cluster."
            )
        if self.hosts and self.nodes not in (None, len(self.hosts)):
            raise InputError(f"--hosts names {len(self.hosts)} hosts, but --nodes is {self.nodes}: leave one out.")
        if self.launcher == "torchrun" and not self.hosts:
            raise InputError(
                "--launcher torchrun needs hosts, for instance --hosts a,b,c,d. "
                "HINT: on this machine alone, leave out --launcher."
            )
        if self.hosts and self.launcher not in (None, "torchrun", "mpi"):
            raise InputError(f"--hosts is for torchrun and mpi: --launcher {self.launcher} does not use it.")
        if self.launcher == "slurm" and self.is_shaped:
            raise InputError("--launcher slurm runs on real nodes: an emulated cluster has no Slurm.")
        if self.launcher != "slurm":
            for name in ("partition", "account", "time", "sbatch"):
                if getattr(self, name):
                    raise InputError(f"--{name} is for --launcher slurm.")

    @property
    def is_shaped(self) -> bool:
        """Whether a setting is given that only an emulated cluster has."""
        asked = (self.cluster, self.bandwidth, self.latency, self.cpus, self.memory)
        return any(value is not None for value in asked)

    @property
    def is_emulated(self) -> bool:
        """Whether the nodes are network namespaces on this machine."""
        own_nodes = self.nodes is not None and self.launcher != "slurm" and not self.hosts
        return self.is_shaped or own_nodes
