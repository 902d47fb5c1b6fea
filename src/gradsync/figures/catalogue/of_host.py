"""Figures of the host: CPU, memory, time without a core."""

from __future__ import annotations

from gradsync.figures.catalogue.of_traffic import total
from gradsync.figures.figure import At, Figure
from gradsync.record import RankSummary


def ranks(at: At) -> list[RankSummary]:
    return [at.of_rank] if at.rank is not None else at.figures.ranks


def cpu(at: At) -> float | None:
    """1 is one core."""
    found = total(rank.cpu_percent for rank in ranks(at))
    return None if found is None else found / 100


def cpu_of_share(at: At) -> float | None:
    """1 is one core, or the whole share of a node that has a share of the cores."""
    found = cpu(at)
    share = at.figures.cluster.cpus if at.figures.cluster else None
    return None if found is None else found / (share or 1.0)


def without_core(at: At) -> float | None:
    found = [rank.run_delay_percent for rank in ranks(at)]
    return max((value / 100 for value in found if value is not None), default=None)


def host_memory(at: At) -> float | None:
    found = [rank.peak_memory_bytes for rank in ranks(at)]
    return max((value for value in found if value is not None), default=None)


def gpu_memory(at: At) -> float | None:
    found = [rank.gpu_peak_memory_bytes for rank in ranks(at)]
    return max((value for value in found if value is not None), default=None)


def device_memory(at: At) -> float | None:
    """Where the model is: on a GPU, else on the host."""
    found = gpu_memory(at)
    return host_memory(at) if found is None else found


def gpu_use(at: At) -> float | None:
    found = [rank.gpu_utilization for rank in ranks(at)]
    return max((value / 100 for value in found if value is not None), default=None)


CPU = Figure("cpu-cores", "CPU", cpu, "100% is one core; for a run, of all workers together", form=".0%")
CPU_OF_SHARE = Figure(
    "cpu", "CPU", cpu_of_share, "100% is one core, or a node's whole share of the cores if it has one", "%"
)
WITHOUT_CORE = Figure(
    "without-core",
    "not scheduled",
    without_core,
    "share of the time in which a thread was runnable but not scheduled for lack of a core",
    form=".0%",
)
MEMORY = Figure("memory", "peak memory", host_memory, "of the process that needed the most", "MB", ",.0f")
GPU_MEMORY = Figure("gpu-memory", "GPU memory", gpu_memory, "peak, of the process that needed the most", "MB", ",.0f")
DEVICE_MEMORY = Figure(
    "device-memory",
    "peak memory",
    device_memory,
    "of the worker that needed the most; on a GPU, GPU memory",
    "MB",
    ",.0f",
)
GPU_USE = Figure("gpu", "GPU", gpu_use, "share of the time in which a kernel ran", form=".0%")
