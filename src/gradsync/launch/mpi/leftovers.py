"""What ranks and proxies of mpich could not remove because they were killed: shared memory and topology files.

The names of these files do not say which process they belong to. Only what no living process can need is removed:
shared memory that no process has mapped or open, and topology files older than every living proxy.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")
SEGMENTS = ("mpich_shm_*", "ucx_shm_posix_*")
TOPOLOGIES = "hydra_hwloc_xmlfile_*"
PROXY = "hydra_pmi_proxy"


def remove() -> None:
    segments = [path for pattern in SEGMENTS for path in ours(SHARED_MEMORY, pattern)]
    needed = in_use() if segments else set()
    topologies = list(ours(Path(tempfile.gettempdir()), TOPOLOGIES))
    oldest_proxy = min(proxy_starts(), default=None) if topologies else None
    for path in segments:
        if str(path) not in needed:
            path.unlink(missing_ok=True)
    for path in topologies:
        with suppress(OSError):
            if oldest_proxy is None or path.stat().st_mtime < oldest_proxy:
                path.unlink()


def ours(folder: Path, pattern: str) -> Iterator[Path]:
    for path in folder.glob(pattern):
        with suppress(OSError):
            if path.stat().st_uid == os.getuid():
                yield path


def in_use() -> set[str]:
    """Files in shared memory that a process has mapped or open."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended in the meantime, or we may not read it
            lines = (process / "maps").read_text(errors="replace").splitlines()
            found |= {line.split(maxsplit=5)[5] for line in lines if str(SHARED_MEMORY) in line}
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                found.add(os.readlink(descriptor))
    return found


def proxy_starts() -> Iterator[float]:
    for process in psutil.process_iter(["name", "create_time", "status"]):
        name = process.info["name"]  # which the kernel truncates to 15 characters
        if name and PROXY.startswith(name) and process.info["status"] != psutil.STATUS_ZOMBIE:
            yield process.info["create_time"]
