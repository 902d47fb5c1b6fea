"""On what kind of place a run was made: a speed-up is against a run on the same kind, or it is not one."""

from __future__ import annotations

from typing import Any

Place = tuple[Any, ...]


def place_of(figures: dict[str, Any]) -> Place:
    """What decides how fast one process computes there: the machine, the device, and the share of it a node has.

    Not the links, which one process does not use, nor the threads: that N workers have an N-th of the cores each is
    what is compared. An older record does not tell its machine, and is compared with those that do not either.
    """
    host = figures.get("host") or {}
    machine = (host.get("processor"), host.get("cores"), host.get("device"))
    cluster = figures.get("cluster")
    return (*machine, kind_of_device(figures.get("device")), cluster is not None, (cluster or {}).get("cpus"))


def kind_of_device(name: str | None) -> str | None:
    """cuda:1 is a GPU like cuda:0."""
    return name.partition(":")[0] if name else None
