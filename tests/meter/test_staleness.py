from __future__ import annotations

from gradsync.meter.staleness import of_worker, pushes, served


def push(worker: int, update: int, staleness: int, applied: bool = True) -> dict:
    return {"kind": "push", "worker": worker, "update": update, "staleness": staleness, "applied": applied}


SERVER = [push(0, 1, 0), push(1, 2, 1), push(0, 3, 1), push(1, 3, 9, applied=False)]


def test_updates_staleness_and_what_was_dropped():
    found = served([[], SERVER])
    assert found["updates"] == 3
    assert found["staleness"] == {"histogram": {"0": 1, "1": 2}, "mean": 2 / 3, "max": 1, "dropped": 1}


def test_of_several_servers_the_first_one_counts_as_every_gradient_comes_to_all():
    assert pushes([[{"kind": "step"}], SERVER, SERVER]) == SERVER


def test_each_worker_has_its_own():
    assert of_worker(0, SERVER) == {"dropped": 0, "staleness": 0.5}
    assert of_worker(1, SERVER) == {"dropped": 1, "staleness": 1.0}
    assert of_worker(2, SERVER) == {"dropped": None, "staleness": None}


def test_without_servers_there_is_nothing():
    assert served([[{"kind": "step"}]]) == {"updates": None, "staleness": None}
