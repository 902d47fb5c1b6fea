from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from gradsync import data, models
from gradsync.config.plugin import call, resolve
from gradsync.errors import InputError


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "from torch.utils.data import TensorDataset\n"
        "def small():\n"
        "    return torch.nn.Linear(3, 2)\n"
        "def breaks():\n"
        "    return inner()\n"
        "def inner():\n"
        "    return 1 / 0\n"
        "def number():\n"
        "    return 7\n"
        "def sets():\n"
        "    make = lambda n: TensorDataset(torch.ones(n, 3), torch.zeros(n, dtype=torch.long))\n"
        "    return make(20), make(6)\n"
    )
    (tmp_path / "broken.py").write_text("import torch\nimport not_there_at_all\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("place", ["mine.py", "mine"])
@pytest.mark.usefixtures("own")
def test_own_model_by_file_and_by_module(place: str):
    assert isinstance(models.build(f"{place}:small", shape=(), classes=0), nn.Linear)


@pytest.mark.usefixtures("own")
def test_own_data_tells_its_shape_and_can_be_cut_short():
    samples = data.load("mine.py:sets", native=((), 2), parts=data.Parts(data.Wanted(5)))
    assert samples.shape == (3,)
    assert (len(samples.train), len(samples.test)) == (5, 6)
    assert torch.equal(samples.train[0][0], torch.ones(3))


@pytest.mark.usefixtures("own")
def test_own_code_that_raises_shows_its_traceback_and_none_of_ours():
    with pytest.raises(InputError, match="ZeroDivisionError") as caught:
        call("mine.py:breaks", "model")
    text = str(caught.value)
    assert 'mine.py", line 8, in inner' in text
    assert "plugin.py" not in text


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("mine.py:smal", "Did you mean small"),
        ("none.py:small", "there is no such file"),
        ("no_such_package.models:small", "which Python cannot find"),
        ("broken.py:build", "not_there_at_all"),
        ("broken:build", "not_there_at_all"),
        ("mine.py:number", "must return a torch.nn.Module"),
    ],
)
@pytest.mark.usefixtures("own")
def test_what_cannot_be_used_is_refused_with_a_sentence(reference: str, message: str):
    with pytest.raises(InputError, match=message):
        models.build(reference, shape=(), classes=0)


@pytest.mark.usefixtures("own")
def test_data_that_is_no_pair_of_datasets_is_refused():
    with pytest.raises(InputError, match="must return two torch Datasets"):
        data.load("mine.py:number", native=((), 2))


def two_folders(place: Path) -> None:
    """Each has a net.py and a blocks.py."""
    for name in ("one", "two"):
        folder = place / name
        folder.mkdir()
        (folder / "blocks.py").write_text(f"class Block: where = {name!r}\n")
        (folder / "net.py").write_text(
            "import inner.deep\nfrom blocks import Block\ndef where(): return Block.where, inner.deep.WHERE\n"
        )
        (folder / "inner").mkdir()
        (folder / "inner" / "__init__.py").write_text("")
        (folder / "inner" / "deep.py").write_text(f"WHERE = {name!r}\n")


def test_own_files_import_their_siblings_and_those_of_one_name_do_not_clash(own: Path):
    two_folders(own)
    for name in ("one", "two", "one"):
        assert call(f"{name}/net.py:where", "model") == (name, name)
    first, second = (resolve(f"{name}/net.py:where", "model") for name in ("one", "two"))
    assert first is resolve("./one/../one/net.py:where", "loss"), "one file is one module, whoever asks for it"
    assert first is not second
    assert (sys.modules["blocks"].Block.where, sys.modules["inner.deep"].WHERE) == ("two", "two")


def test_a_file_that_has_changed_is_imported_anew(own: Path):
    (own / "changing.py").write_text("def one(): return 1\n")
    assert call("changing.py:one", "model") == 1
    (own / "changing.py").write_text("def one(): return 'another'\n")
    assert call("changing.py:one", "model") == "another"


@pytest.mark.usefixtures("own")
def test_a_file_that_cannot_be_imported_leaves_nothing_behind():
    before = set(sys.modules)
    for _ in range(2):
        with pytest.raises(InputError, match="not_there_at_all"):
            resolve("broken.py:build", "model")
    assert not {name for name in set(sys.modules) - before if "broken" in name}
