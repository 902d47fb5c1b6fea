"""Control groups: the share of the host's cores and memory a node gets. Version 2, or 1, whichever is mounted."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gradsync.cluster.spec import PREFIX
from gradsync.config import Shape
from gradsync.errors import InputError

PERIOD = 10_000  # of the CPU quota, in microseconds: short compared with a step
WANTED_FOR = {"cpu": "--cpus", "memory": "--memory"}
GONE_SECONDS = 5.0


@dataclass(frozen=True)
class Controller:
    """One resource, and the group below which ours are made."""

    name: str
    version: int
    parent: Path

    def limits(self, amount: float) -> dict[str, str]:
        """file -> text, in the order they must be written."""
        if self.name == "cpu" and self.version == 2:
            return {"cpu.max": f"{round(amount * PERIOD)} {PERIOD}"}
        if self.name == "cpu":
            return {"cpu.cfs_period_us": str(PERIOD), "cpu.cfs_quota_us": str(round(amount * PERIOD))}
        return {"memory.max" if self.version == 2 else "memory.limit_in_bytes": str(int(amount))}


def controllers(mounts: str | None = None, own: str | None = None) -> dict[str, Controller]:
    """The controllers this host has mounted, from the texts of /proc/self/mountinfo and /proc/self/cgroup."""
    mounts = Path("/proc/self/mountinfo").read_text() if mounts is None else mounts
    own = Path("/proc/self/cgroup").read_text() if own is None else own
    own_group = {
        name: path
        for line in own.splitlines()
        for _, names, path in [line.split(":", 2)]
        for name in names.split(",")
    }
    found: dict[str, Controller] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        folder, (kind, _, options) = Path(before.split()[4]), after.split(" ", 2)
        if kind == "cgroup2":
            # At the root: a group with processes of its own, such as ours, cannot pass controllers on to subgroups.
            with suppress(OSError):
                for name in (folder / "cgroup.controllers").read_text().split():
                    found.setdefault(name, Controller(name, 2, folder))
        elif kind == "cgroup":
            for name in own_group.keys() & set(options.split(",")):
                inside = folder / own_group[name].lstrip("/")
                found[name] = Controller(name, 1, inside if inside.is_dir() else folder)
    return found


def needed(asked: Shape) -> dict[str, float]:
    """controller -> amount"""
    amounts = {"cpu": asked.cpus, "memory": asked.memory_bytes}
    return {name: float(amount) for name, amount in amounts.items() if amount is not None}


def choose(asked: Shape) -> list[Controller]:
    """The controllers the shape needs. One that is missing, or that a trial shows may not be used, is refused."""
    there = controllers()
    for name in needed(asked):
        if name not in there:
            raise InputError(
                f"{WANTED_FOR[name]} needs the cgroup controller '{name}', which is not mounted here "
                f"(mounted: {', '.join(sorted(there)) or 'none'}). HINT: leave {WANTED_FOR[name]} out."
            )
    for name, amount in needed(asked).items():
        trial = there[name].parent / f"{PREFIX}trial-{os.getpid()}"
        try:
            create(there[name], trial, "node", amount)
        finally:
            remove(trial)
    return [there[name] for name in needed(asked)]


def create(controller: Controller, cluster_folder: Path, node: str, amount: float) -> None:
    folder = cluster_folder / node
    try:
        if controller.version == 2:
            for place in (controller.parent, cluster_folder):
                place.mkdir(exist_ok=True)
                (place / "cgroup.subtree_control").write_text(f"+{controller.name}")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in controller.limits(amount).items():
            (folder / name).write_text(text)
    except OSError as error:
        raise InputError(
            f"{WANTED_FOR[controller.name]} is not available here: {error}. "
            "HINT: it needs a control group that this user may write to; "
            f"otherwise leave {WANTED_FOR[controller.name]} out."
        ) from None


def join(folders: list[Path], node: str) -> None:
    """Move this process, and all it starts from now on, into the groups of a node."""
    for folder in folders:
        (folder / node / "cgroup.procs").write_text("0")


def folders_in(folder: Path, prefix: str = "") -> list[Path]:
    if not folder.is_dir():
        return []
    return [place for place in folder.iterdir() if place.is_dir() and place.name.startswith(prefix)]


def processes_in(folder: Path) -> list[int]:
    """The processes of all nodes that have their groups in this folder."""
    found: list[int] = []
    for place in folders_in(folder):
        with suppress(OSError):
            found += map(int, (place / "cgroup.procs").read_text().split())
    return found


def remove(folder: Path) -> None:
    """Remove a folder with the nodes in it. Their processes have ended; the kernel needs a moment to see that."""
    until = time.monotonic() + GONE_SECONDS
    for place in [*folders_in(folder), folder]:
        while place.exists():
            try:
                place.rmdir()
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
