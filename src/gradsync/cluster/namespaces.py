"""Network namespaces: enter one, and find the processes in it. Uses ctypes, as Python has no setns before 3.12."""

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

BIND, RECURSIVE, PRIVATE, SLAVE, SHARED = 0x1000, 0x4000, 0x40000, 0x80000, 0x100000  # flags of mount
DETACH = 2  # of umount2

_LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library that returns 0; anything else is raised as an OSError."""
    if getattr(_LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def enter(path: Path, kind: int) -> None:
    """From now on this thread is in that namespace, and so are the sockets it opens and processes it starts."""
    with open(path, "rb") as file:
        call("setns", file.fileno(), kind)


def create(name: str) -> None:
    """Create a network namespace that persists without processes: bound to a file, where iproute2 finds it too."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    share_folder()
    path = FOLDER / name
    path.touch(exist_ok=False)
    with open("/proc/thread-self/ns/net", "rb") as home:
        call("unshare", NETWORK)
        try:
            call("mount", b"/proc/thread-self/ns/net", os.fsencode(path), None, BIND, None)
            with suppress(OSError):  # a kernel without IPv6
                Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")  # its own traffic would be counted
        finally:
            call("setns", home.fileno(), NETWORK)


def share_folder() -> None:
    """Share the mounts, so that a removed namespace disappears from the mounts of all processes, not only ours."""
    place = os.fsencode(FOLDER.resolve())
    try:
        call("mount", b"", place, b"none", SHARED | RECURSIVE, None)
    except OSError:  # it is not a mount yet
        call("mount", place, place, b"none", BIND | RECURSIVE, None)
        call("mount", b"", place, b"none", SHARED | RECURSIVE, None)


def remove(name: str) -> None:
    """Remove a namespace with every interface in it."""
    with suppress(OSError):  # made halfway: nothing is bound to it
        call("umount2", os.fsencode(FOLDER / name), DETACH)
    (FOLDER / name).unlink(missing_ok=True)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread alone is in the namespace during the block. Sockets opened in it stay there."""
    with open("/proc/thread-self/ns/net", "rb") as home:
        enter(FOLDER / namespace, NETWORK)
        try:
            yield
        finally:
            call("setns", home.fileno(), NETWORK)


def cover(path: Path, by: Path) -> None:
    """Put one file in place of another, in the private mount namespace of this process."""
    call("mount", b"none", b"/", None, RECURSIVE | SLAVE, None)  # what is unmounted outside must go here too
    if path.exists():
        call("mount", os.fsencode(by), os.fsencode(path.resolve()), None, BIND, None)


def make_mounts_private() -> None:
    """What is mounted from here on is not seen outside."""
    call("mount", b"none", b"/", None, RECURSIVE | PRIVATE, None)


def existing(prefix: str) -> list[str]:
    return sorted(path.name for path in FOLDER.glob(f"{prefix}*"))


def processes_in(namespace: str) -> list[int]:
    """The processes that are in this network namespace."""
    try:
        wanted = (FOLDER / namespace).stat()
    except FileNotFoundError:
        return []
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended in the meantime, or we may not look at it
            theirs = (process / "ns" / "net").stat()
            if (theirs.st_dev, theirs.st_ino) == (wanted.st_dev, wanted.st_ino):
                found.append(int(process.name))
    return found
