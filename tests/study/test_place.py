"""What a speed-up must have in common, and what not."""

from __future__ import annotations

import pytest

from gradsync.study.place import place_of

HERE = {
    "host": {"processor": "EPYC", "cores": 2, "device": None, "python": "3.11"},
    "device": "cpu",
    "cluster": {"cpus": 0.5, "bandwidth": "1gbit", "nodes": 1},
}


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": {"cpus": 0.5, "bandwidth": None, "nodes": 4}},
        {"threads": 2, "world_size": 4},
        {"host": {**HERE["host"], "python": "3.12"}},  # type: ignore[dict-item]
    ],
)
def test_links_threads_and_software_do_not_make_another_place(changes: dict):
    assert place_of(HERE | changes) == place_of(HERE)


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": None},
        {"cluster": {"cpus": 1.0}},
        {"device": "cuda:0"},
        {"host": {"processor": "Xeon", "cores": 2}},
        {"host": {"processor": "EPYC", "cores": 64}},
        {"host": None},
    ],
)
def test_cores_devices_machines_and_emulation_do(changes: dict):
    assert place_of(HERE | changes) != place_of(HERE)


def test_gpus_of_one_machine_are_the_same_place():
    assert place_of(HERE | {"device": "cuda:1"}) == place_of(HERE | {"device": "cuda:0"})
