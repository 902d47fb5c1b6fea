"""Which rank ended first. mpiexec may name another one: the ranks whose peer is gone fail as well, or are ended."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gradsync.launch.processes import starts
from gradsync.parent import start_ticks, stat_fields

LOOK_SECONDS = 0.2  # between two looks for ranks that have started since
EXIT_STATUS = 49  # in the fields of /proc/PID/stat from the third on


class FirstToEnd:
    """A context manager that waits for the kernel to tell of each rank on this machine that it has ended (Linux)."""

    def __init__(self, folder: Path, processes: int) -> None:
        self._folder, self._processes = folder, processes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="first-to-end", daemon=True)
        self.order: list[int] = []
        """The ranks that have ended, the first one first."""

    def __enter__(self) -> FirstToEnd:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        watched: dict[int, int] = {}
        pids: dict[int, int] = {}
        events = select.poll()
        with suppress(OSError, AttributeError):  # not Linux, or one before 5.3: nothing is known
            while not self._stop.is_set():
                for rank, pid in self._started_since(pids).items():
                    pids[rank] = pid
                    try:
                        watched[descriptor := os.pidfd_open(pid)] = rank
                        events.register(descriptor, select.POLLIN)
                    except ProcessLookupError:  # it ended before we looked, and so before all that still live
                        self.order.append(rank)
                ended = {descriptor: watched[descriptor] for descriptor, _ in events.poll(LOOK_SECONDS * 1000)}
                self.order += sorted(ended.values(), key=lambda rank: was_interrupted(pids[rank]))
                for descriptor in ended:
                    del watched[descriptor]
                    events.unregister(descriptor)
                    os.close(descriptor)
        for descriptor in watched:
            os.close(descriptor)

    def _started_since(self, known: Mapping[int, int]) -> dict[int, int]:
        """rank -> process id, of those that have started since the last look and, as far as one can tell, ended."""
        if len(known) == self._processes:
            return {}
        found = starts(self._folder, self._processes)
        own = [rank for rank, row in found.items() if row.get("start_ticks")]
        here = [rank for rank in own if start_ticks(found[rank]["pid"]) in (None, found[rank].get("start_ticks"))]
        return {rank: found[rank]["pid"] for rank in here if rank not in known}


def was_interrupted(pid: int) -> bool:
    """Whether SIGINT has ended it, with which mpiexec ends the ranks that are left. Unknown once it is reaped."""
    fields = stat_fields(pid)
    return bool(fields) and fields[0] == "Z" and int(fields[EXIT_STATUS]) & 0x7F == signal.SIGINT
