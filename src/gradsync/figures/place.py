"""The kind of hardware a run was made on, and how many of its cores the run used."""

from __future__ import annotations

from typing import Any

from gradsync.record import ProbeSummary, RunSummary

Place = tuple[Any, ...]


def place_of(figures: RunSummary) -> Place:
    """What decides how fast one process computes there: the machine, the device, and the share of it a node has.

    The links are left out, as one process does not use them. An older record does not name its machine, and is
    compared only with others that do not either.
    """
    host = figures.host
    machine = (host["processor"], host["cores"], host["device"]) if host else (None, None, None)
    cluster = figures.cluster
    return (*machine, kind_of_device(figures.device), cluster is not None, cluster.cpus if cluster else None)


def kind_of_device(name: str | None) -> str | None:
    """cuda:1 is a GPU like cuda:0."""
    return name.partition(":")[0] if name else None


def busy_threads(figures: RunSummary | ProbeSummary) -> int | None:
    """Compute threads of all workers on one host; an emulated cluster is one host."""
    return figures.threads * processes_on_host(figures) if figures.threads else None


def processes_on_host(figures: RunSummary | ProbeSummary) -> int:
    """Without servers."""
    if isinstance(figures, ProbeSummary):
        return figures.world_size if on_one_host(figures) else -(-figures.world_size // figures.nodes)
    return len(figures.ranks) if on_one_host(figures) else figures.workers_per_node or 1


def cores_wanted(figures: RunSummary | ProbeSummary) -> float | None:
    """How many cores the threads on one host can keep busy; emulated nodes take no more than their shares."""
    threads, cluster = busy_threads(figures), figures.cluster
    return min(threads, cluster.cpus * figures.nodes) if threads and cluster and cluster.cpus else threads


def on_one_host(figures: RunSummary | ProbeSummary) -> bool:
    return figures.cluster is not None or figures.nodes <= 1


def cores_of_host(figures: RunSummary) -> int | None:
    return figures.host["cores"] if figures.host else None


def cores_used(figures: RunSummary) -> float | None:
    """Cores the workers use together: no more than their threads, nor than there are; None if unknown.

    On GPUs it is the number of workers, each of which has one.
    """
    if kind_of_device(figures.device) == "cuda":
        return float(figures.world_size)
    threads, cores = busy_threads(figures), cores_of_host(figures)
    if threads is None or cores is None:
        return None
    if figures.cluster and figures.cluster.cpus:
        shares = max(1, figures.nodes) * figures.cluster.cpus
        return min(float(threads), shares, float(cores))
    hosts = 1 if on_one_host(figures) else figures.nodes
    return float(hosts * min(threads, cores))
