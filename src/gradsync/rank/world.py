"""Who am I: rank and size from the launcher's environment, and the lifetime of the process group."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from gradsync.errors import InputError
from gradsync.rank import slurm_step
from gradsync.rank.store import bound_store

LOOPBACK = ("127.0.0.1", "localhost", "::1")
CONNECT_SECONDS = 60
ELSEWHERE = "192.0.2.1"  # a documentation address, which no host has: it is reached by the default route

# launcher -> its variables for (rank, size, local rank, local size). The first launcher that has set all of its own
# counts: mpiexec inside a Slurm job sets its own in addition to Slurm's, srun --mpi=pmi2 only some of mpich's.
NAMES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "mpich": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "open mpi": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", slurm_step.TASKS_HERE),
    "mpich on one host": ("PMI_RANK", "PMI_SIZE", "PMI_RANK", "PMI_SIZE"),  # its mpiexec.gforker
}

MPI_LAUNCHERS = ("mpich", "open mpi", "mpich on one host")


@dataclass(frozen=True)
class World:
    """One process among ``size``."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    launcher: str | None = None

    @property
    def node(self) -> str:
        slurms = os.environ.get("SLURMD_NODENAME") if self.launcher == "slurm" else None
        return slurms or socket.gethostname()

    @property
    def kernel(self) -> str:
        """The same for all processes that share a kernel, and with it a clock."""
        boot_id = Path("/proc/sys/kernel/random/boot_id")
        return boot_id.read_text().strip() if boot_id.exists() else self.node

    @property
    def interface(self) -> str | None:
        """The network interface reserved for messages between ranks; emulated nodes have one."""
        return os.environ.get("GRADSYNC_INTERFACE")


def discover(environment: Mapping[str, str] = os.environ) -> World:
    """The world this process was started in; a world of one if no launcher started it."""
    known = slurm_step.with_tasks_here(environment)
    for launcher, names in NAMES.items():
        if all(name in known for name in names):
            rank, size, local_rank, local_size = (int(known[name]) for name in names)
            return World(rank, size, local_rank, local_size, launcher)
    if "RANK" in known and "WORLD_SIZE" in known:
        return plain(known)
    for launcher, (name, *others) in NAMES.items():
        missing = ", ".join(other for other in others if other not in known)
        if name in known:
            raise InputError(f"{name} is set without {missing}: start the processes with {launcher}.")
    return World()


def plain(environment: Mapping[str, str]) -> World:
    """For rank and size set by hand: all ranks are on one host if they meet on loopback, else one on each host."""
    rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    local = (rank, size) if environment.get("MASTER_ADDR") in LOOPBACK else (0, 1)
    local_rank, local_size = (
        int(environment.get(name, default))
        for name, default in zip(("LOCAL_RANK", "LOCAL_WORLD_SIZE"), local, strict=True)
    )
    return World(rank, size, local_rank, local_size, "environment")


def current() -> World:
    """The group this process has joined already, or the world its launcher describes."""
    if dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    return discover()


def choose_device(asked: str, world: World) -> torch.device:
    """The device this rank computes on. Ranks share GPUs when there are fewer GPUs than ranks."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "cuda" and not gpus:
        raise InputError("you asked for --device cuda, but torch finds no GPU here. Use --device cpu or auto.")
    if asked == "cpu" or not gpus:
        return torch.device("cpu")
    return torch.device("cuda", world.local_rank % gpus)


def choose_backend(world: World, device: torch.device, asked: str = "auto") -> str | None:
    """The backend that carries the messages. NCCL refuses two ranks on one GPU; gloo carries their tensors too."""
    if world.size == 1:
        return None
    own_gpu = device.type == "cuda" and world.local_size <= torch.cuda.device_count()
    if asked == "nccl" and not own_gpu:
        raise InputError("--transport nccl needs a GPU for every worker. HINT: leave it out, and gloo is used.")
    return asked if asked != "auto" else "nccl" if own_gpu else "gloo"


def join(world: World, device: torch.device, asked: str = "auto") -> bool:
    """Create the process group unless there is one; a world of one needs none. Return whether it was created."""
    backend = choose_backend(world, device, asked)
    if backend is None or dist.is_initialized():
        return False
    if world.launcher == "slurm" and not {"MASTER_ADDR", "MASTER_PORT"} <= set(os.environ):
        os.environ.update(slurm_step.meeting_place(os.environ))
    address = meeting_address(os.environ.get("MASTER_ADDR", ""), all_here=world.size == world.local_size)
    if found := interface_of(address or address_towards(ELSEWHERE)):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", found)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", found)
    store = None
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        try_to_reach(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    elif world.rank == 0 and address:  # torch's own would listen on every interface; it takes ours
        store = bound_store(address, int(os.environ["MASTER_PORT"]), shared=True)
    dist.init_process_group(backend, rank=world.rank, world_size=world.size)
    del store  # torch holds it now
    return True


def try_to_reach(host: str, port: int) -> None:
    """Fail early if the existing store is unreachable: torch tries for half an hour, even without a free port."""
    socket.create_connection((host, port), CONNECT_SECONDS).close()


def meeting_address(host: str, all_here: bool = False) -> str | None:
    """Our own address at which the others reach us, if the rendezvous is on this host.

    None where that is uncertain: many hosts resolve their own name to 127.0.1.1, where no other host reaches them.
    """
    own = address_towards(host)
    is_loopback = own is not None and own.startswith(("127.", "::1"))
    return own if not is_loopback or all_here or host in LOOPBACK else None


def interface_of(address: str | None) -> str | None:
    """The network interface that has this address."""
    for name, addresses in psutil.net_if_addrs().items():
        if address in [item.address for item in addresses]:
            return name
    return None


def address_towards(host: str) -> str | None:
    """Our own address from which messages to this host would be sent. Nothing is sent to find it out."""
    if not host:
        return None
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as trial:
            trial.connect(target)
            return trial.getsockname()[0]
    except OSError:
        return None


def is_joined() -> bool:
    return dist.is_initialized()


def leave() -> None:
    if is_joined():
        dist.destroy_process_group()
