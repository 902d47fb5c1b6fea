"""Two clocks are compared over a store, as between hosts."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch.distributed as dist

from gradsync.observe import clocks


def test_the_offset_is_found_within_its_bound():
    store = dist.HashStore()
    thread = threading.Thread(target=lambda: clocks.answer(store, 1, 0), daemon=True)
    thread.start()
    found = clocks.ask(store, 1, 0)
    thread.join(10)
    assert abs(found.offset) <= found.bound < 1  # of two threads of one process


def test_only_ranks_on_another_kernel_are_asked(monkeypatch: pytest.MonkeyPatch):
    rows: list[dict[str, Any]] = []

    class Log:
        def write(self, kind: str, **values: Any) -> None:
            rows.append({"kind": kind, **values})

    class Here:
        def __init__(self, rank: int, kernel: str) -> None:
            self.rank, self.size, self.kernel = rank, 3, kernel

    class Enough(Exception):
        pass

    def stop(_: float) -> None:
        raise Enough

    def measure(rank: int, kernel: str) -> None:
        try:
            clocks.measure(store, Here(rank, kernel), Log(), stop)
        except Enough:
            rows.append({"rank": rank})

    store = dist.HashStore()
    ranks = [threading.Thread(target=measure, args=each, daemon=True) for each in ((0, "a"), (1, "a"), (2, "b"))]
    for thread in ranks:
        thread.start()
    for thread in ranks[1:]:
        thread.join(20)
    assert [row["kind"] for row in rows if "kind" in row] == ["clock"]
    assert {"rank": 2} in rows
    assert abs(rows[0]["offset"]) <= rows[0]["bound"]
    assert rows[0]["time"] <= time.monotonic()
