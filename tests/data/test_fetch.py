"""Downloads from a real server on loopback."""

from __future__ import annotations

import functools
import hashlib
import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from gradsync.data.fetch import fetch
from gradsync.data.files import Download, FileSet, Part, Source
from gradsync.data.mnist import MNIST
from gradsync.errors import InputError

CONTENT = b"pixels" * 1000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "set.bin").write_bytes(CONTENT)
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "www"))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def locate(folder: Path) -> Source | None:
    path = folder / "tiny" / "set.bin"
    return Source(path, "bin", lambda: iter([Part("all", path, path.read_bytes())])) if path.exists() else None


def tiny(url: str, md5: str | None = None) -> FileSet:
    md5 = md5 or hashlib.md5(CONTENT).hexdigest()
    return FileSet(
        "tiny",
        {"all": hashlib.sha256(CONTENT).hexdigest()},
        locate,
        ("set.bin",),
        (Download("set.bin", md5, (url,)),),
    )


def quiet() -> Console:
    return Console(file=io.StringIO())


def test_fetch_puts_the_file_under_the_data_folder_and_is_done_the_second_time(server: str, tmp_path: Path):
    source = fetch(tiny(f"{server}/set.bin"), tmp_path / "data", quiet())
    assert source.path.read_bytes() == CONTENT
    assert fetch(tiny("http://127.0.0.1:1/nowhere"), tmp_path / "data", quiet()) == source or source.path.exists()


def test_a_second_address_is_tried(server: str, tmp_path: Path):
    files = tiny(f"{server}/missing.bin")
    files = replace(
        files, downloads=(replace(files.downloads[0], urls=(f"{server}/missing.bin", f"{server}/set.bin")),)
    )
    assert fetch(files, tmp_path / "data", quiet()).path.read_bytes() == CONTENT


def test_a_mirror_replaces_the_home(server: str, tmp_path: Path):
    assert fetch(tiny("http://127.0.0.1:1/x"), tmp_path / "data", quiet(), mirror=server).form == "bin"


def test_a_wrong_hash_is_refused_and_leaves_no_file(server: str, tmp_path: Path):
    with pytest.raises(InputError, match=r"could not download set\.bin.*\n.*hash"):
        fetch(tiny(f"{server}/set.bin", md5="0" * 32), tmp_path / "data", quiet())
    assert not list((tmp_path / "data").rglob("set.bin"))


def test_no_connection_is_a_sentence_with_a_way_out(tmp_path: Path):
    with pytest.raises(InputError, match=r"(?s)could not download set\.bin.*--mirror URL.*yourself"):
        fetch(tiny("http://127.0.0.1:1/set.bin"), tmp_path / "data", quiet())


def test_mnist_has_two_homes_for_each_file():
    assert all(len(download.urls) == 2 and download.file.endswith(".gz") for download in MNIST.downloads)
