"""Files of clusters that do not tell what the cluster is like: named, passed over, and taken away by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.cli.command import cluster as cli_cluster
from gradsync.cli.commands import Down, Status
from gradsync.cluster import groups, lifecycle, namespaces, privilege, spec
from gradsync.cluster.spec import Cluster, Damaged
from gradsync.config import RunConfig, Shape
from gradsync.errors import InputError

WHOLE = asdict(Cluster("broken", Shape(nodes=2), 3))

DAMAGE: dict[str, Callable[[Path], object]] = {
    "not JSON": lambda path: path.write_text("{"),
    "not UTF-8": lambda path: path.write_bytes(b'{"name": "\xff"}'),
    "empty": lambda path: path.write_text(""),
    "a list": lambda path: path.write_text("[1]"),
    "a number": lambda path: path.write_text("7"),
    "null": lambda path: path.write_text("null"),
    "nested too deeply": lambda path: path.write_text("[" * 100_000),
    "a number of 5,000 digits": lambda path: path.write_text(json.dumps(WHOLE).replace("3", "9" * 5000)),
    "of another version": lambda path: path.write_text('{"name": "broken", "switch": 7}'),
    "another name": lambda path: path.write_text(json.dumps(WHOLE | {"name": "lab"})),
    "no nodes": lambda path: path.write_text(json.dumps(WHOLE | {"shape": {}})),
    "a million nodes": lambda path: path.write_text(json.dumps(WHOLE | {"shape": {"nodes": 1_000_000}})),
    "a network that cannot be": lambda path: path.write_text(json.dumps(WHOLE | {"network": 300})),
    "somebody else's groups": lambda path: path.write_text(json.dumps(WHOLE | {"groups": ["/sys/fs/cgroup"]})),
    "a folder": lambda path: (path / "inside").mkdir(parents=True),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of our own, with one cluster that is whole; nothing of the kernel is touched."""
    monkeypatch.setattr(spec, "STATE", tmp_path)
    monkeypatch.setattr(privilege, "ensure", lambda: None)
    monkeypatch.setattr(namespaces, "FOLDER", tmp_path / "netns")
    monkeypatch.setattr(groups, "controllers", lambda: {"cpu": groups.Controller("cpu", 1, tmp_path / "cpu")})
    spec.remember(spec.make("lab", Shape(nodes=2)))
    return tmp_path


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_stops_nothing_else(state: Path, damage: str, capsys: pytest.CaptureFixture[str]):
    DAMAGE[damage](spec.file_of("broken"))
    assert spec.names() == ["broken", "lab"]
    if damage == "a link to nothing":  # as if it had gone while one looks
        with pytest.raises(InputError, match="unknown cluster"):
            spec.find_cluster("broken")
    else:
        with pytest.raises(Damaged, match=r"broken.json, is damaged, or .* HINT: gradsync cluster down broken"):
            spec.find_cluster("broken")
        assert cli_cluster.status(Status()) == 0
        shown = capsys.readouterr().out
        assert "lab: 2 nodes" in shown and "broken.json, is damaged" in shown
        assert cli_cluster.status(Status(json=True)) == 0
        assert [item["name"] for item in json.loads(capsys.readouterr().out)] == ["lab", "broken"]
    assert [cluster.name for cluster in spec.everyone()] == ["lab"]
    assert spec.filled(RunConfig(cluster="lab", batch_size=48)).nodes == 2
    assert spec.make("new", Shape()).name == "new"
    with pytest.raises(InputError, match="broken"):
        spec.make("broken", Shape())
    if damage != "a link to nothing":
        assert cli_cluster.down(Down(name="broken")) == 0
        assert spec.names() == ["lab"]
        assert spec.make("broken", Shape()).name == "broken"


@pytest.mark.parametrize("damage", DAMAGE)
def test_all_clusters_are_taken_down_with_it(state: Path, damage: str):
    DAMAGE[damage](spec.file_of("broken"))
    assert lifecycle.down_all() == ["lab", "broken"]
    assert spec.names() == []


def test_what_is_removed_carries_its_name_and_no_other(state: Path):
    spec.file_of("lab").write_text("{")
    (state / "netns").mkdir()
    (state / "cpu" / "gradsync-lab" / "node1").mkdir(parents=True)
    (state / "cpu" / "gradsync-lab-2" / "node1").mkdir(parents=True)
    mine = ["gradsync-lab-switch", "gradsync-lab-node1", "gradsync-lab-node12"]
    others = ["gradsync-lab-2-node1", "gradsync-lab-node1-switch", "gradsync-label-node1", "gradsync-lab"]
    for name in (*mine, *others):
        (state / "netns" / name).touch()
    lifecycle.down_named("lab")
    assert sorted(path.name for path in (state / "netns").iterdir()) == sorted(others)
    assert [path.name for path in (state / "cpu").iterdir()] == ["gradsync-lab-2"]
    assert spec.names() == []


def test_one_of_a_run_whose_command_is_gone_is_taken_away_too(state: Path):
    gone = f"{lifecycle.FOR_ONE_RUN}{2**22 + 1}-1"  # above the largest process id
    spec.file_of(gone).write_text("{")
    lifecycle.remove_abandoned()
    assert spec.names() == ["lab"]


@given(
    content=st.one_of(
        st.binary(),
        st.text().map(str.encode),
        st.recursive(
            st.none() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(sorted(WHOLE)), inner),
        )
        .map(json.dumps)
        .map(str.encode),
    )
)
def test_whatever_is_in_the_file_it_is_damaged_or_a_cluster(content: bytes, tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spec, "STATE", tmp_path_factory.mktemp("state"))
        spec.file_of("broken").write_bytes(content)
        try:
            assert spec.find_cluster("broken").name == "broken"
        except Damaged as error:
            assert "HINT" in str(error)  # noqa: PT017
