"""What this process takes from its host, once a second and off the training thread, as rows of the record."""

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
    """A context: the first sample when it is entered, the last when it is left, others in between."""

    def __init__(self, log: RankLog, counter: Counter | None, device: torch.device) -> None:
        self._log = log
        self._counter = counter
        self._device = device
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, name="host-sampler", daemon=True)

    def __enter__(self) -> HostSampler:
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
        """One more now, for instance before a peer closes its connection and takes the counts along."""
        self._write()

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(SECONDS):
            self._write()

    def _write(self) -> None:
        with suppress(Exception):  # measuring never stops training: this sample is missing
            self._log.write("host", **self._sample())

    def _write_links(self) -> None:
        """How every connection has fared so far; at the beginning and at the end."""
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
            "peak_memory_bytes": max(memory, peak_memory()),  # the kernel keeps the two counts a little apart
            "sent_bytes": counts.sent if counts else None,
            "received_bytes": counts.received if counts else None,
            **gpu(self._device),
        }


def peak_memory() -> int:
    """Of this program. getrusage also knows what the process had before it became this one: its parent's memory."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE


def forget_peak() -> None:
    """From here on, where the kernel lets us: processes may make several runs."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def cores() -> dict[str, float | None]:
    """Seconds until now: of all threads of this process; of the training thread running, and ready but not."""
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
    except Exception:  # needs nvidia-ml-py, and a driver that tells
        utilization = None
    return {"gpu_peak_memory_bytes": torch.cuda.max_memory_allocated(device), "gpu_utilization": utilization}
