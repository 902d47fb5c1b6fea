from __future__ import annotations

from gradsync.ledger.staleness import of_worker, pushes, staleness, updates
from gradsync.record import RankRecord, record_of
from gradsync.record.summaries import Staleness


def push(worker: int, update: int, staleness: int, applied: bool = True) -> dict:
    return {"kind": "push", "worker": worker, "update": update, "staleness": staleness, "applied": applied}


SERVER = [push(0, 1, 0), push(1, 2, 1), push(0, 3, 1), push(1, 3, 9, applied=False)]


def test_updates_staleness_and_what_was_dropped():
    assert updates(SERVER) == 3
    assert staleness(SERVER) == Staleness(histogram={"0": 1, "1": 2}, mean=2 / 3, max=1, dropped=1)


def test_of_several_servers_the_first_one_counts_as_every_gradient_comes_to_all():
    server = record_of(SERVER)
    assert pushes([RankRecord(), server, record_of(SERVER[:1])]) == SERVER


def test_each_worker_has_its_own():
    assert of_worker(0, SERVER) == (0, 0.5)
    assert of_worker(1, SERVER) == (1, 1.0)
    assert of_worker(2, SERVER) == (None, None)


def test_without_servers_there_is_nothing():
    assert pushes([RankRecord()]) == []
    assert (updates([]), staleness([])) == (None, None)
