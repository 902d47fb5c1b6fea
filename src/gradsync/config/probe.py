"""What the collective benchmark measures: which operations on how many bytes, over which transport, and where."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from gradsync.config.facts import Facts
from gradsync.config.placement import Placement
from gradsync.config.resolved import Resolved, resolve
from gradsync.config.run import RunConfig, Transport
from gradsync.config.values import check_values, quantity
from gradsync.errors import InputError, unknown

OPERATIONS = ("broadcast", "reduce", "gather", "scatter", "all-reduce", "reduce-scatter", "all-gather")
SIZES = ("1KB", "4KB", "16KB", "64KB", "256KB", "1MB", "4MB", "16MB", "64MB")
UNITS = {"KB": 1e3, "MB": 1e6, "GB": 1e9, "B": 1.0}
LARGEST = 4e9  # of one message: MPI counts elements with 31 bits
NUMBER_BYTES = 4  # float32, as gradients are


@dataclass(kw_only=True)
class ProbeConfig(Placement):
    """Time every operation on every size over every transport."""

    workers: int | None = None
    """Processes that take part, 2 or more. Default: --workers-per-node on every node, else 2."""

    transport: tuple[Transport, ...] = ("auto",)
    """What carries the messages, for instance gloo,mpi. auto: gloo, or nccl where every worker has a GPU."""

    operations: tuple[str, ...] = OPERATIONS
    """Collectives to time: broadcast, reduce, gather, scatter, all-reduce, reduce-scatter, all-gather."""

    sizes: tuple[str, ...] = SIZES
    """Sizes of the whole message, for instance 64KB,1MB,16MB. In gather, scatter, reduce-scatter and all-gather each
    worker's part is this divided by the number of workers."""

    iterations: int = 20
    """Iterations of each operation and size, at most; large messages get fewer, but at least three."""

    seconds: float = 0.5
    """About how long each operation on each size is timed, at most."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device that holds the messages; auto takes a GPU if there is one."""

    threads: int | None = None
    """Compute threads per worker. Default: cores ÷ workers, at least 1."""

    out: str = "runs"
    """Folder in which each benchmark makes its own."""

    def __post_init__(self) -> None:
        check_values(self)
        self.check_placement()
        for name in ("transport", "operations", "sizes"):
            once = tuple(dict.fromkeys(getattr(self, name)))
            if not once:
                raise InputError(f"--{name} is empty: name at least one.")
            setattr(self, name, once)
        if "auto" in self.transport and len(self.transport) > 1:
            raise InputError("--transport auto stands alone: name the transports to compare, for instance gloo,mpi.")
        for operation in self.operations:
            if operation not in OPERATIONS:
                raise unknown("operation", operation, OPERATIONS)
        for size in self.bytes_asked:
            if not 1 <= size <= LARGEST:
                raise InputError(f"--sizes has {size:g} bytes: each must be from 1B to {LARGEST / 1e9:g}GB.")

    @property
    def bytes_asked(self) -> list[int]:
        """The sizes as numbers, each once, from small to large."""
        asked = (quantity("sizes", text, UNITS, "64KB,1MB") or 0 for text in self.sizes)
        return sorted({int(size) for size in asked})

    def runs(self) -> list[RunConfig]:
        """What the launchers start, one per transport. Nothing is trained: training settings have no effect."""
        placement = {item.name: getattr(self, item.name) for item in fields(Placement)}
        return [
            RunConfig(
                **placement,
                workers=self.workers,
                transport=transport,
                device=self.device,
                threads=self.threads,
                out=self.out,
                strategy="all-reduce",
                batch_per_worker=1,
                steps=1,
                eval=False,
                measure=False,
            )
            for transport in self.transport
        ]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def resolve_probe(asked: ProbeConfig) -> list[Resolved]:
    """Resolve its runs. Every worker is a process of its own, and there is no strategy whose facts would matter."""
    found = [resolve(run, Facts()) for run in asked.runs()]
    if any(run.processes < 2 for run in found):
        raise InputError("one worker has nobody to send to: give --workers 2 or more.")
    return found


def message_bytes(asked: int, workers: int) -> int:
    """The size rounded down so that every worker has equally many numbers, at least one."""
    for_each = NUMBER_BYTES * workers
    return max(1, asked // for_each) * for_each
