"""Network namespaces: go into one, and see who is in it. ctypes, as Python has no setns before 3.12."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = Path("/var/run/netns")  # where pyroute2 and iproute2 keep them

NETWORK = 0x40000000  # CLONE_NEWNET
HOST_NAME = 0x04000000  # CLONE_NEWUTS
USER = 0x10000000  # CLONE_NEWUSER
MOUNTS = 0x00020000  # CLONE_NEWNS

_LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """A function of the C library that returns 0, or fails with an OSError."""
    if getattr(_LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def enter(path: Path, kind: int) -> None:
    """From now on this thread is in that namespace, and so are the sockets it opens and processes it starts."""
    with open(path, "rb") as file:
        call("setns", file.fileno(), kind)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """For the block, this thread alone. Sockets opened in it stay there."""
    with open("/proc/thread-self/ns/net", "rb") as home:
        enter(FOLDER / namespace, NETWORK)
        try:
            yield
        finally:
            call("setns", home.fileno(), NETWORK)


def existing(prefix: str) -> list[str]:
    return sorted(path.name for path in FOLDER.glob(f"{prefix}*"))


def processes_in(namespace: str) -> list[int]:
    """Everyone whose network this is."""
    try:
        wanted = (FOLDER / namespace).stat()
    except FileNotFoundError:
        return []
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile, or not ours to look at
            theirs = (process / "ns" / "net").stat()
            if (theirs.st_dev, theirs.st_ino) == (wanted.st_dev, wanted.st_ino):
                found.append(int(process.name))
    return found
