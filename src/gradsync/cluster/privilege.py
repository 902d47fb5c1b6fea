"""Who may make namespaces: root, or, where the kernel allows it, anyone inside a user namespace of their own.

Without root, the first cluster starts a keeper: a process that does nothing but hold the user's namespace, in which
the user counts as root. Later commands join it, and it ends with the last cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from gradsync.cluster import namespaces
from gradsync.errors import InputError
from gradsync.record.writing import write_whole

NET_ADMIN, SYS_ADMIN = 12, 21  # bits of a capability set
IDLE_SECONDS = 5  # a command that has just found the keeper needs it a moment longer
REFUSED = (
    "an emulated cluster needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN), or a kernel that lets users make namespaces, "
    "and this one does not: {}. HINT: run it with sudo."
)


def has_all(status: str | None = None) -> bool:
    """Whether this process has both capabilities, from the text of /proc/self/status."""
    status = Path("/proc/self/status").read_text() if status is None else status
    line = next((line for line in status.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    capabilities = int(line.split()[1], 16)
    return all(capabilities >> bit & 1 for bit in (NET_ADMIN, SYS_ADMIN))


def ensure() -> None:
    """Become privileged, or raise an error that says why not. Must be called while the process has one thread."""
    if sys.platform != "linux":
        raise InputError("an emulated cluster needs Linux: it is made of the kernel's network namespaces.")
    if has_all():
        return
    keeper = running_keeper() or start_keeper()
    try:
        for name, kind in (("user", namespaces.USER), ("mnt", namespaces.MOUNTS), ("net", namespaces.NETWORK)):
            namespaces.enter(Path(f"/proc/{keeper}/ns/{name}"), kind)
    except OSError as error:
        raise InputError(REFUSED.format(error.strerror)) from None


def keeper_file() -> Path:
    return Path(tempfile.gettempdir()) / f"gradsync-{os.getuid()}" / "keeper"


def running_keeper() -> int | None:
    """The process id of the keeper, if it is still that process: ids are reused."""
    with suppress(OSError, ValueError):
        if keeper_file().stat().st_uid != os.getuid():
            return None
        pid = int(keeper_file().read_text())
        if __name__ in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
            return pid
    return None


def start_keeper() -> int:
    keeper = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert keeper.stdout
    answer = keeper.stdout.readline().strip()
    if answer != "ready":
        raise InputError(REFUSED.format(answer or "the keeper ended"))
    keeper_file().parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(keeper_file(), str(keeper.pid))
    return keeper.pid


def become_root_of_own_namespace() -> None:
    """Create it with a /run of its own, where namespaces are kept, and a network to return to from a node's."""
    user, group = os.getuid(), os.getgid()
    namespaces.call("unshare", namespaces.USER | namespaces.MOUNTS | namespaces.NETWORK)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path(f"/proc/self/{name}").write_text(text)
    namespaces.make_mounts_private()
    namespaces.call("mount", b"tmpfs", b"/run", b"tmpfs", 0, None)
    Path("/run/netns").mkdir()


def keep() -> None:
    """Hold the namespace until no cluster is left in it."""
    from gradsync.cluster import spec

    try:
        become_root_of_own_namespace()
    except OSError as error:
        print(error.strerror, flush=True)
        return
    print("ready", flush=True)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    last_use = time.monotonic()
    while time.monotonic() < last_use + IDLE_SECONDS:
        last_use = time.monotonic() if spec.names() else last_use
        time.sleep(0.5)


if __name__ == "__main__":
    keep()
