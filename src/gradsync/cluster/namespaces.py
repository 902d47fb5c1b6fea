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

BIND, RECURSIVE, PRIVATE, SLAVE, SHARED = 0x1000, 0x4000, 0x40000, 0x80000, 0x100000  # flags of mount
DETACH = 2  # of umount2

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


def create(name: str) -> None:
    """A network namespace that stays when nobody is in it: bound to a file, where iproute2 finds it too."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    share_folder()
    path = FOLDER / name
    path.touch(exist_ok=False)
    with open("/proc/thread-self/ns/net", "rb") as home:
        call("unshare", NETWORK)
        try:
            call("mount", b"/proc/thread-self/ns/net", os.fsencode(path), None, BIND, None)
            with suppress(OSError):  # a kernel without it
                Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")  # it would talk, and be counted
        finally:
            call("setns", home.fileno(), NETWORK)


def share_folder() -> None:
    """So that a namespace that is removed goes from the mounts of all processes, not only from ours."""
    place = os.fsencode(FOLDER.resolve())
    try:
        call("mount", b"", place, b"none", SHARED | RECURSIVE, None)
    except OSError:  # it is not a mount yet
        call("mount", place, place, b"none", BIND | RECURSIVE, None)
        call("mount", b"", place, b"none", SHARED | RECURSIVE, None)


def remove(name: str) -> None:
    """With every interface in it."""
    with suppress(OSError):  # made halfway: nothing is bound to it
        call("umount2", os.fsencode(FOLDER / name), DETACH)
    (FOLDER / name).unlink(missing_ok=True)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """For the block, this thread alone. Sockets opened in it stay there."""
    with open("/proc/thread-self/ns/net", "rb") as home:
        enter(FOLDER / namespace, NETWORK)
        try:
            yield
        finally:
            call("setns", home.fileno(), NETWORK)


def cover(path: Path, by: Path) -> None:
    """In the mount namespace this process has for itself, one file instead of another."""
    call("mount", b"none", b"/", None, RECURSIVE | SLAVE, None)  # what ends outside must end in here too
    if path.exists():
        call("mount", os.fsencode(by), os.fsencode(path.resolve()), None, BIND, None)


def make_mounts_private() -> None:
    """What is mounted from here on is not seen outside."""
    call("mount", b"none", b"/", None, RECURSIVE | PRIVATE, None)


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
