"""Files appear whole, and devices and pipes are written to, never replaced."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from gradsync.record.writing import is_own_file, whole_file, write_whole


def test_a_file_appears_whole_and_replaces_the_one_before(tmp_path: Path):
    path = tmp_path / "x.json"
    with whole_file(path) as file:
        file.write(b"first")
        assert not path.exists()
    assert write_whole(path, "zweite Fassung: ü") == path
    assert path.read_text(encoding="utf-8") == "zweite Fassung: ü"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path):
    path = tmp_path / "x"
    write_whole(path, b"before")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert path.read_bytes() == b"before"
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", b"")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["folder", "x"]


def test_writers_at_once_do_not_share_what_they_write_aside(tmp_path: Path):
    contents = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: write_whole(tmp_path / "x", content), contents * 5))
    assert (tmp_path / "x").read_bytes() in contents
    assert [item.name for item in tmp_path.iterdir()] == ["x"]


def test_a_name_as_long_as_a_name_may_be(tmp_path: Path):
    path = write_whole(tmp_path / ("x" * 255), b"here")
    assert path.read_bytes() == b"here"


def test_a_pipe_is_written_to(tmp_path: Path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    write_whole(path, b"through the pipe")
    reader.join()
    assert read == [b"through the pipe"]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert not is_own_file(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_stays_a_device(tmp_path: Path):
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("not even root makes devices here")
    with suppress(PermissionError):  # devices may be there, and not be usable
        write_whole(path, b"nobody reads this")
    assert stat.S_ISCHR(path.stat().st_mode)
    assert [item.name for item in tmp_path.iterdir()] == ["null"]


def test_what_a_link_leads_to_is_written_and_the_link_stays(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", b"through the link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"through the link"


@pytest.mark.parametrize("redirected", [True, False])
def test_our_own_output_is_written_in_order_also_into_a_file(tmp_path: Path, redirected: bool):
    """As /dev/stdout is: a link to what this process has opened as its output."""
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    program = (
        "import sys; from pathlib import Path; from gradsync.record.writing import write_whole; "
        "print('before'); write_whole(Path(sys.argv[1]), 'content\\n'); print('after')"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "stdout")]
    if redirected:
        with open(tmp_path / "out", "w") as out:
            subprocess.run(command, stdout=out, check=True)
        found = (tmp_path / "out").read_text()
    else:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found == "before\ncontent\nafter\n"
