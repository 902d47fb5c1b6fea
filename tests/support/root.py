"""What tests of the emulated cluster need: the right to make namespaces, and nothing left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gradsync.cluster import groups, namespaces, privilege, spec
from gradsync.cluster.spec import PREFIX

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or not privilege.has_all(),
    reason="makes network namespaces: needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) on Linux",
)
needs_cpu_shares = pytest.mark.skipif(
    sys.platform != "linux" or "cpu" not in groups.controllers(), reason="needs the cgroup controller cpu"
)


def own_name(purpose: str) -> str:
    """Of a cluster no other run of the tests can have, whatever an earlier one left."""
    return f"test-{purpose}-{os.getpid()}"


def left_behind() -> list[str]:
    """Everything in the kernel and on disk that carries our name."""
    parents = {item.parent for item in groups.controllers().values()}
    folders = [folder for parent in parents for folder in groups.folders_in(parent, PREFIX)]
    files = [path for path in spec.STATE.glob("*") if path.name != ".lock"]
    return [*namespaces.existing(PREFIX), *map(str, [*folders, *files]), *host_interfaces()]


def host_interfaces() -> list[str]:
    """In the host's own network: ports of a switch, or the switch itself."""
    names = [path.name for path in Path("/sys/class/net").iterdir()]
    return [name for name in names if name.startswith("port") or name == "switch"]
