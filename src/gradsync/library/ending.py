"""How the user's script ends: by itself, by an exception, or by a signal. Records are closed, and the group is left.

Whatever ends it, its results and its exit code stay what they would have been.
"""

from __future__ import annotations

import atexit
import gc
import os
from contextlib import suppress
from functools import cache
from weakref import WeakSet

from gradsync.comm import mpi
from gradsync.library import uneven
from gradsync.library.exits import Exited, ended_by, listen
from gradsync.library.sync import Sync
from gradsync.rank import world

_living: WeakSet[Sync] = WeakSet()
_waited_for: list[Sync] = []  # by the other ranks, whether anything else here refers to them or not
_joined = False


def living() -> list[Sync]:
    return list(_living)


def own_group() -> None:
    """The process group has been created for the script, and is left at its end."""
    global _joined
    _joined = True
    leave_at_exit()


def look_after(sync: Sync) -> None:
    """Detach it at the end of the script at the latest, and close its record before a failure ends the script."""
    _living.add(sync)
    sync.strategy.on_detach(listen(sync.close_record if sync.is_recorded else None))
    leave_at_exit()


def wait_at_exit(sync: Sync) -> None:
    """Take part in the steps of the others at the end of the script, also if its variables are gone by then."""
    _waited_for.append(sync)
    sync.strategy.on_detach(lambda: _waited_for.remove(sync))


@cache  # registered once, however many models are attached
def leave_at_exit() -> None:
    atexit.register(leave)
    os.register_at_fork(after_in_child=lambda: atexit.unregister(leave))


def leave() -> None:
    """Leave the group at the end of the script. Strategies are detached first: DDP's reducers would keep it alive.

    A rank that is out of batches takes part in the steps of the others until they are, too, unless it has failed.
    The group's threads must not outlive Python: otherwise "terminate called without an active exception" aborts the
    process (2 of 80 bare scripts).
    """
    global _joined
    error = ended_by()
    if error is None:
        with suppress(RuntimeError, ValueError):  # the others have failed, or the script has left its group
            uneven.wait_for_others()
    for sync in living():
        with suppress(OSError):  # the disk is full: the script's own end matters more
            sync.close_record(error)
    for sync in living():
        sync.detach()
        if sync.comm.transport == "mpi" and isinstance(error, Exited):
            mpi.abort(error.code)  # its own end would wait for the others, who wait for this rank
    gc.collect()
    if _joined:
        world.leave()
    _joined = False
