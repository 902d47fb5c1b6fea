"""The file formats, on small sets made here; the real ones are in test_real_data.py."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import struct
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.data import cifar10, mnist
from gradsync.data.files import FileSet, data_folder
from gradsync.errors import InputError

BATCHES = {
    name: np.random.default_rng(i).integers(0, 10, (20, 3073), np.uint8) for i, name in enumerate(cifar10.CONTENTS)
}


@pytest.fixture
def small_cifar10(monkeypatch: pytest.MonkeyPatch) -> FileSet:
    hashes = {name: hashlib.sha256(rows.tobytes()).hexdigest() for name, rows in BATCHES.items()}
    small = replace(cifar10.CIFAR10, contents=hashes)
    monkeypatch.setattr(cifar10, "CIFAR10", small)
    monkeypatch.setattr(cifar10, "ROWS", 20)
    return small


def python_batch(rows: np.ndarray) -> bytes:
    return pickle.dumps({b"labels": rows[:, 0].tolist(), b"data": rows[:, 1:], b"batch_label": b"x"}, protocol=2)


def contents(form: str) -> dict[str, bytes]:
    if form == "bin":
        return {f"cifar-10-batches-bin/{name}.bin": rows.tobytes() for name, rows in BATCHES.items()}
    return {f"cifar-10-batches-py/{name}": python_batch(rows) for name, rows in BATCHES.items()}


def write_folder(folder: Path, form: str) -> None:
    for name, data in contents(form).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def write_archive(folder: Path, form: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / {"bin": "cifar-10-binary.tar.gz", "py": "cifar-10-python.tar.gz"}[form]
    with tarfile.open(path, "w:gz") as archive:
        for name, data in contents(form).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize("form", ["bin", "py"])
@pytest.mark.parametrize("write", [write_folder, write_archive])
@pytest.mark.parametrize("below", ["", "cifar10"])
def test_every_form_of_cifar10_is_found_and_read_alike(
    small_cifar10: FileSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, write, below: str
):
    write(tmp_path / below, form)
    monkeypatch.setenv("GRADSYNC_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    train, test = cifar10.load()
    assert len(train) == 100
    assert len(test) == 20
    row = BATCHES["data_batch_2"][3]
    assert train.labels[23] == row[0]
    assert np.array_equal(train.pixels[23].permute(2, 0, 1).numpy().ravel(), row[1:])
    assert test.padding == 0
    assert train.padding == 4


@pytest.mark.parametrize("change", ["truncated", "altered"])
@pytest.mark.parametrize("form", ["bin", "py"])
def test_a_damaged_batch_is_refused_with_its_name_and_both_hashes(
    small_cifar10: FileSet, tmp_path: Path, form: str, change: str
):
    write_folder(tmp_path, form)
    name = next(name for name in contents(form) if "data_batch_3" in name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[:-100] if change == "truncated" else data[:-1000] + b"\1" + data[-999:])
    with pytest.raises(InputError, match="truncated or altered") as caught:
        small_cifar10.read(tmp_path)
    assert str(tmp_path / name) in str(caught.value)
    assert small_cifar10.contents["data_batch_3"] in str(caught.value)
    assert "found" in str(caught.value)


def test_a_truncated_archive_is_refused_with_its_name_and_both_hashes(small_cifar10: FileSet, tmp_path: Path):
    path = write_archive(tmp_path, "bin")
    path.write_bytes(path.read_bytes()[:20_000])
    found = hashlib.md5(path.read_bytes()).hexdigest()
    with pytest.raises(InputError, match=f"{path.name} is truncated.*{cifar10.BINARY_ARCHIVE[1]}, found {found}"):
        small_cifar10.read(tmp_path)


def test_a_pickle_that_runs_code_is_not_run(small_cifar10: FileSet, tmp_path: Path):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    write_folder(tmp_path, "py")
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps({b"labels": Attack()}))
    with pytest.raises(InputError, match="data_batch_1"):
        small_cifar10.read(tmp_path)
    assert not (tmp_path / "harm").exists()
    with pytest.raises(pickle.UnpicklingError, match=r"mkdir"):
        cifar10.BatchUnpickler(io.BytesIO(pickle.dumps(Attack()))).load()


def idx_file(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


PARTS = {
    part: idx_file(np.random.default_rng(i).integers(0, 10, (30, 28, 28) if "images" in part else 30, np.uint8))
    for i, part in enumerate(mnist.CONTENTS)
}


@pytest.fixture
def small_mnist(monkeypatch: pytest.MonkeyPatch) -> FileSet:
    small = replace(mnist.MNIST, contents={part: hashlib.sha256(data).hexdigest() for part, data in PARTS.items()})
    monkeypatch.setattr(mnist, "MNIST", small)
    return small


def write_mnist(folder: Path, separator: str, ending: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, data in PARTS.items():
        path = folder / (mnist.file_name(part, separator) + ending)
        path.write_bytes(gzip.compress(data) if ending else data)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(("below", "separator"), [("", "-"), ("mnist", "."), ("MNIST/raw", "-")])
def test_every_form_of_mnist_is_found_and_read_alike(
    small_mnist: FileSet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    below: str,
    separator: str,
    ending: str,
):
    write_mnist(tmp_path / below, separator, ending)
    monkeypatch.setenv("GRADSYNC_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    train, test = mnist.load()
    assert train.shape == (1, 28, 28)
    assert len(train) == len(test) == 30
    assert train.pixels[:].numpy().tobytes() == PARTS["train-images"][16:]
    assert test.labels[:].tolist() == list(PARTS["t10k-labels"][8:])


@pytest.mark.parametrize("keep", [-40, 60])
def test_a_damaged_gzip_is_refused_with_its_name_and_both_hashes(small_mnist: FileSet, tmp_path: Path, keep: int):
    write_mnist(tmp_path, "-", ".gz")
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    data = path.read_bytes()
    path.write_bytes(data[:keep] if keep < 0 else data[:keep] + b"\xff" * 50 + data[keep + 50 :])
    with pytest.raises(InputError, match=r"t10k-images-idx3-ubyte.gz is truncated or altered: sha256") as caught:
        small_mnist.read(tmp_path)
    assert small_mnist.contents["t10k-images"] in str(caught.value)


@given(head=st.binary(max_size=20), dimensions=st.sampled_from([1, 3]))
def test_whatever_an_idx_file_begins_with_it_is_read_or_refused(head: bytes, dimensions: int):
    whole = bytes([0, 0, 8, dimensions])
    for content in (head, whole + head):
        with suppress(InputError):
            found = mnist.idx(content, dimensions, 784 if dimensions == 3 else 1)
            assert (found.content, found.offset) == (content, 4 + 4 * dimensions)
            assert content.startswith(whole) and len(content) >= found.offset


@pytest.mark.parametrize("keep", [0, 2, 3, 10, 1000])
def test_an_idx_file_that_became_shorter_after_the_check_is_refused(
    small_mnist: FileSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int
):
    write_mnist(tmp_path, "-", "")
    monkeypatch.setenv("GRADSYNC_DATA", str(tmp_path))
    path = tmp_path / mnist.file_name("train-images")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=rf"{path.name} is truncated: [0-9,]+ bytes are needed, but it has"):
        mnist.load(verify=False)


def test_images_and_labels_must_be_as_many(small_mnist: FileSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_mnist(tmp_path, "-", "")
    monkeypatch.setenv("GRADSYNC_DATA", str(tmp_path))
    (tmp_path / mnist.file_name("train-labels")).write_bytes(idx_file(np.zeros(29, np.uint8)))
    with pytest.raises(InputError, match="mnist has 30 train images and 29 labels for them"):
        mnist.load(verify=False)


@pytest.mark.parametrize("lost", [1, 3073, 3073 * 20])
def test_a_cifar10_file_that_became_shorter_after_the_check_is_refused(
    small_cifar10: FileSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
):
    """Also by whole rows: the others of the run would count on them."""
    write_folder(tmp_path, "bin")
    monkeypatch.setenv("GRADSYNC_DATA", str(tmp_path))
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_5.bin"
    path.write_bytes(path.read_bytes()[:-lost])
    with pytest.raises(InputError, match=rf"data_batch_5.bin is truncated: 61,460 .* it has {61460 - lost:,}\."):
        cifar10.load(verify=False)


@pytest.mark.parametrize("files", [cifar10.CIFAR10, mnist.MNIST])
def test_missing_data_names_the_folder_the_files_and_two_ways_out(tmp_path: Path, files: FileSet):
    with pytest.raises(InputError) as caught:
        files.source(tmp_path)
    text = str(caught.value)
    assert str(tmp_path) in text
    assert all(name in text for name in files.expected)
    assert f"gradsync data fetch {files.name}" in text
    assert "GRADSYNC_DATA" in text


def test_the_data_folder_is_the_variable_or_the_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADSYNC_DATA", "/somewhere")
    assert data_folder() == Path("/somewhere")
    monkeypatch.delenv("GRADSYNC_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_folder() == Path("/cache/gradsync")
