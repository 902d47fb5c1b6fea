"""What two runs of a speed-up must have in common, what not, and how many cores a run computes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exhibited import HOST, cluster_shape, steps_of, with_figures
from gradsync.figures.place import busy_threads, cores_of_host, cores_used, place_of
from gradsync.record import Run


@pytest.fixture
def here(tmp_path: Path) -> Run:
    """On an emulated node with half a core."""
    return with_figures(
        steps_of(tmp_path, "local", 1, 0.1), host=HOST, device="cpu", cluster=cluster_shape(0.5, "1gbit", 1)
    )


def place(run: Run, **changes: Any) -> object:
    found = with_figures(run, **changes).summary
    assert found
    return place_of(found)


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": cluster_shape(0.5, None, 4)},
        {"threads": 2, "world_size": 4},
        {"host": {**HOST, "python": "3.12"}},
    ],
)
def test_links_threads_and_software_do_not_make_another_place(here: Run, changes: dict[str, Any]):
    assert place(here, **changes) == place(here)


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": None},
        {"cluster": cluster_shape(1.0)},
        {"device": "cuda:0"},
        {"host": {**HOST, "processor": "Xeon"}},
        {"host": {**HOST, "cores": 64}},
        {"host": None},
    ],
)
def test_cores_devices_machines_and_emulation_do(here: Run, changes: dict[str, Any]):
    assert place(here, **changes) != place(here)


def test_gpus_of_one_machine_are_the_same_place(here: Run):
    assert place(here, device="cuda:1") == place(here, device="cuda:0")


@pytest.mark.parametrize(
    ("changes", "busy", "used"),
    [
        ({"threads": 1}, 4, 2.0),  # four threads on two cores
        ({"threads": 1, "host": {**HOST, "cores": 8}}, 4, 4.0),
        ({"threads": 4, "host": {**HOST, "cores": 8}}, 16, 8.0),
        ({"threads": 1, "host": None}, 4, None),
        ({"threads": None}, None, None),
        ({"threads": 1, "cluster": cluster_shape(0.25), "nodes": 4}, 4, 1.0),  # an emulated one is one host
        ({"threads": 1, "cluster": cluster_shape(), "nodes": 4}, 4, 2.0),
        ({"threads": 2, "nodes": 2, "workers_per_node": 2}, 4, 4.0),  # two machines of two cores each
        ({"threads": 1, "device": "cuda:0"}, 4, 4.0),  # a GPU for each
    ],
)
def test_threads_that_compute_and_the_cores_they_have(
    tmp_path: Path, changes: dict[str, Any], busy: int | None, used: float | None
):
    figures = with_figures(steps_of(tmp_path, "ddp", 4, 0.1), **{"host": HOST, "device": "cpu", **changes}).summary
    assert figures
    assert busy_threads(figures) == busy
    assert cores_used(figures) == used
    assert cores_of_host(figures) == (figures.host["cores"] if figures.host else None)
