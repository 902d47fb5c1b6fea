"""Control groups: which there are, and what is written into them. Version 2 only on made-up files: see docs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gradsync.cluster import groups
from gradsync.cluster.groups import Controller
from gradsync.config import Shape
from gradsync.errors import InputError


def mount(folder: Path, kind: str, options: str) -> str:
    return f"30 25 0:26 / {folder} rw,relatime shared:4 - {kind} {kind} rw,{options}"


def test_controllers_of_version_1_lie_below_our_own_group(tmp_path: Path):
    (tmp_path / "memory" / "box").mkdir(parents=True)
    (tmp_path / "cpu").mkdir()
    mounts = [mount(tmp_path / "cpu", "cgroup", "cpu,cpuacct"), mount(tmp_path / "memory", "cgroup", "memory")]
    found = groups.controllers("\n".join(mounts), "2:cpu,cpuacct:/\n1:memory:/box\n0::/")
    assert found["cpu"] == Controller("cpu", 1, tmp_path / "cpu")
    assert found["memory"] == Controller("memory", 1, tmp_path / "memory" / "box")


def test_controllers_of_version_2_are_those_the_kernel_lists(tmp_path: Path):
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    found = groups.controllers(mount(tmp_path, "cgroup2", "nsdelegate"), "0::/user.slice")
    assert found["cpu"] == Controller("cpu", 2, tmp_path)


@pytest.mark.parametrize(
    ("controller", "amount", "files"),
    [
        (Controller("cpu", 1, Path()), 0.5, {"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "5000"}),
        (Controller("cpu", 2, Path()), 1.5, {"cpu.max": "15000 10000"}),
        (Controller("memory", 1, Path()), 4e9, {"memory.limit_in_bytes": "4000000000"}),
        (Controller("memory", 2, Path()), 4e9, {"memory.max": "4000000000"}),
    ],
)
def test_what_a_limit_is_written_as(controller: Controller, amount: float, files: dict[str, str]):
    assert controller.limits(amount) == files


def test_version_2_hands_the_controller_down_before_it_sets_a_limit(tmp_path: Path):
    groups.create(Controller("cpu", 2, tmp_path), tmp_path / "gradsync-lab", "node1", 0.5)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
    assert (tmp_path / "gradsync-lab" / "cgroup.subtree_control").read_text() == "+cpu"
    assert (tmp_path / "gradsync-lab" / "node1" / "cpu.max").read_text() == "5000 10000"


def test_a_controller_that_is_not_mounted_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(groups, "controllers", lambda: {"memory": Controller("memory", 1, tmp_path)})
    monkeypatch.setattr(groups, "remove", shutil.rmtree)
    with pytest.raises(InputError, match="--cpus needs the cgroup controller 'cpu', which is not mounted here"):
        groups.choose(Shape(cpus=0.5))
    assert [item.name for item in groups.choose(Shape(memory="1GB"))] == ["memory"]


def test_a_group_that_may_not_be_written_is_refused(tmp_path: Path):
    (tmp_path / "gradsync-lab").write_text("in the way")
    with pytest.raises(InputError, match="--memory is not available here"):
        groups.create(Controller("memory", 1, tmp_path), tmp_path / "gradsync-lab", "node1", 1e9)
