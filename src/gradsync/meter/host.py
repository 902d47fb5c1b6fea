"""What this process uses of its host, sampled once a second off the training thread, as rows of the record."""

from __future__ import annotations

import resource
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import torch

from gradsync.meter.connections import Connections, links
from gradsync.meter.network import Counter
from gradsync.record import RankLog

SECONDS = 1.0
KILOBYTE = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss


class HostSampler:
    """A context manager: it takes the first sample on entry, the last on exit, and others in between."""

    def __init__(
        self, log: RankLog, counter: Counter | None, device: torch.device, *, forget_peaks: bool = True
    ) -> None:
        """``forget_peaks``: count peak memory from here on. Not in a script that is not ours."""
        self._log = log
        self._counter = counter
        self._device = device
        self._forget_peaks = forget_peaks
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, name="host-sampler", daemon=True)

    def __enter__(self) -> HostSampler:
        if self._forget_peaks:
            if self._device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(self._device)
            forget_peak()
        self._write_links()
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        # A reading of the kernel or the GPU that hangs must not keep the run from ending.
        self._thread.join(timeout=5)
        self._write()
        self._write_links()
        if self._counter:
            self._counter.close()

    def sample(self) -> None:
        """Take one more sample now, for instance before a peer closes its connection, which loses the counts."""
        self._write()

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(SECONDS):
            self._write()

    def _write(self) -> None:
        with suppress(Exception):  # measuring never stops training: only this sample is lost
            self._log.write("host", **self._sample())

    def _write_links(self) -> None:
        """Record bytes and time in flight of every connection; at the beginning and at the end."""
        with suppress(Exception):
            connections = Connections()
            self._log.write("links", links=links(connections))
            connections.close()

    def _sample(self) -> dict[str, Any]:
        counts = self._counter.read() if self._counter else None
        memory = self._process.memory_info().rss
        return {
            **cores(),
            "memory_bytes": memory,
            "peak_memory_bytes": max(memory, peak_memory()),  # the two counters of the kernel may differ a little
            "sent_bytes": counts.sent if counts else None,
            "received_bytes": counts.received if counts else None,
            **gpu(self._device),
        }


def peak_memory() -> int:
    """The peak memory of this program. getrusage also counts that of the process before exec: its parent's."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE


def forget_peak() -> None:
    """Count the peak from here on, where the kernel allows it: a process may make several runs."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def cores() -> dict[str, float | None]:
    """CPU seconds of all threads so far; of the training thread, seconds running, and runnable but not scheduled."""
    ran, waited = schedstat()
    return {
        "time": time.monotonic(),
        "cpu_seconds": time.process_time(),
        "run_seconds": ran,
        "run_delay_seconds": waited,
    }


def schedstat() -> tuple[float | None, float | None]:
    try:
        ran, waited, *_ = map(int, Path("/proc/self/schedstat").read_text().split())
    except (OSError, ValueError):  # not Linux
        return None, None
    return ran / 1e9, waited / 1e9


def gpu(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {}
    try:
        utilization: int | None = torch.cuda.utilization(device)
    except Exception:  # needs nvidia-ml-py, and a driver that reports it
        utilization = None
    return {"gpu_peak_memory_bytes": torch.cuda.max_memory_allocated(device), "gpu_utilization": utilization}
