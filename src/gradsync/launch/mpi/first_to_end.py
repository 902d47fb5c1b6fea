"""Which rank ended first. mpiexec may name another one: the ranks whose peer is gone fail as well, or are ended."""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gradsync.launch.processes import pids_here

LOOK_SECONDS = 0.2  # between two looks for ranks that have started since


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
        events = select.poll()
        with suppress(OSError, AttributeError):  # not Linux, or one before 5.3: nothing is known
            while not self._stop.is_set():
                known = {*watched.values(), *self.order}
                missing = pids_here(self._folder, self._processes) if len(known) < self._processes else {}
                for rank in missing.keys() - known:
                    with suppress(ProcessLookupError):
                        watched[descriptor := os.pidfd_open(missing[rank])] = rank
                        events.register(descriptor, select.POLLIN)
                for descriptor, _ in events.poll(LOOK_SECONDS * 1000):
                    self.order.append(watched.pop(descriptor))
                    events.unregister(descriptor)
                    os.close(descriptor)
        for descriptor in watched:
            os.close(descriptor)
