"""One rank's stamps of the step in progress: which phase it is in, and when each collective began and ended.

A step is cut into phases, one after another without a gap, so that they add up to its wall time. The stamps are
host times (CLOCK_MONOTONIC, which all processes under one kernel share) or, on a GPU, events in its stream, read
once at the end of the step. What they mean is worked out after the run, in ledger/.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from gradsync.ledger.stamps import POINT_TO_POINT

Stamp = Any  # float, or torch.cuda.Event until the step has ended
DIGITS = 6  # microseconds


@dataclass
class Call:
    """One collective as this rank saw it. ``overlapped``: it ran while the training thread went on."""

    operation: str
    kind: str
    sent: int
    received: int
    overlapped: bool
    start: Stamp
    end: Stamp = None


class Stopwatch:
    """The recorder of a run that is not measured: it records how long each step took, and nothing else."""

    on = False

    def begin(self) -> None:
        self._begin = time.monotonic()

    def end(self) -> dict[str, Any]:
        """End the step, which begins the next one; return its row for the record."""
        begin, self._begin = self._begin, time.monotonic()
        return {"seconds": self._begin - begin}

    def phase(self, name: str) -> None:
        """From now on the training thread is in this phase."""

    def start(self, operation: str, kind: str, sent: int, received: int, overlapped: bool = False) -> Call | None:
        """This rank has arrived at a collective; ``sent`` and ``received`` are its bytes of payload."""
        return None

    def finish(self, call: Call | None, on_host: bool = False) -> None:
        """The collective is over; ``on_host``: what has just ended was not in the GPU's stream."""

    def take_calls(self) -> list[Call]:
        """The collectives called since the last step ended, or before the first."""
        return []


class Recorder(Stopwatch):
    """Stamps everything. Costs one reading of the clock, or one event, per phase and two per collective."""

    on = True

    def __init__(self, device: torch.device | None = None) -> None:
        self._clock = CudaClock(device) if device and device.type == "cuda" else HostClock()
        self._phases: list[tuple[str, Stamp]] = []
        self._calls: list[Call] = []
        self._first_call = 0  # number of the first collective of this step; the same on every rank

    def begin(self) -> None:
        self._begin = self._clock.begin()
        self._phases = [("other", self._begin)]

    def phase(self, name: str) -> None:
        self._phases.append((name, self._clock.stamp()))

    def start(self, operation: str, kind: str, sent: int, received: int, overlapped: bool = False) -> Call:
        call = Call(operation, kind, sent, received, overlapped, self._clock.stamp())
        self._calls.append(call)
        return call

    def finish(self, call: Call | None, on_host: bool = False) -> None:
        assert call is not None
        call.end = time.monotonic() if on_host else self._clock.stamp()

    def take_calls(self) -> list[Call]:
        calls, self._calls = self._calls, []
        return calls

    def restart(self) -> None:
        """Begin the step anew: what was called since the last one ended belongs to no step, but keeps its number."""
        self._first_call += numbered(self.take_calls())
        self.begin()

    def finish_calls(self) -> None:
        """What is still in flight in the background, and will be waited for in a later step, ends here."""
        for call in self._calls:
            if call.end is None:
                self.finish(call)

    def end(self) -> dict[str, Any]:
        begin = round(self._begin, DIGITS)  # rounded first, so that one step ends where the next begins
        end = round(self._clock.end(), DIGITS)

        def offset(stamp: Stamp) -> float:
            return round(self._clock.seconds(stamp) - begin, DIGITS)

        calls = self.take_calls()
        payload: dict[str, list[int]] = {}
        for call in calls:
            total = payload.setdefault(call.kind, [0, 0])
            total[0] += call.sent
            total[1] += call.received
        row = {
            "seconds": round(end - begin, DIGITS),
            "begin": begin,
            "phases": [[name, offset(stamp)] for name, stamp in self._phases],
            "first_collective": self._first_call,
            "collectives": [
                [
                    *(call.operation, call.kind, call.sent, call.received),
                    *(offset(call.start), offset(call.end), int(call.overlapped)),
                ]
                for call in calls
            ],
            "payload": payload,
        }
        self._first_call += numbered(calls)
        self._begin = self._clock.next()
        self._phases = [("other", self._begin)]
        return row


def numbered(calls: list[Call]) -> int:
    """How many of them have a number, which is the same on every rank."""
    return sum(call.operation not in POINT_TO_POINT for call in calls)


class HostClock:
    """The host's clock: correct for work the host does itself."""

    def begin(self) -> float:
        self._now = time.monotonic()
        return self._now

    def end(self) -> float:
        return self.begin()

    def next(self) -> float:
        """The time the next step began: when this one ended."""
        return self._now

    def stamp(self) -> Stamp:
        return time.monotonic()

    def seconds(self, stamp: Stamp) -> float:
        return stamp


class CudaClock:
    """Events in the GPU's stream, as seconds of the host's clock.

    The host runs ahead of the GPU; an event completes when the work before it is done. Each step is measured from an
    event both clocks agree on: the end of the step before, for which the host waits anyway when it reads the loss.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def begin(self) -> float:
        torch.cuda.synchronize(self._device)
        self._anchor, self._anchor_host = self.stamp(), time.monotonic()
        return self._anchor_host

    def end(self) -> float:
        """The time of the step's last event, relative to the one both clocks agree on."""
        self._last = self.stamp()
        torch.cuda.synchronize(self._device)  # all streams; the loss has been read, so there is nothing to wait for
        self._last_host = time.monotonic()
        return self.seconds(self._last)

    def next(self) -> float:
        self._anchor, self._anchor_host = self._last, self._last_host
        return self._anchor_host

    def stamp(self) -> Stamp:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, stamp: Stamp) -> float:
        if isinstance(stamp, float):
            return stamp
        return self._anchor_host + self._anchor.elapsed_time(stamp) / 1e3
