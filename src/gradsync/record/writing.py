"""The one way in which files are written: a reader sees the whole file or none of it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def write_whole(path: Path, content: str | bytes) -> Path:
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write to a temporary file with a name that no other writer has, then rename it; a failed write leaves nothing.

    A device, pipe or link is written into directly: a file renamed over /dev/null would replace it.
    """
    if not is_own_file(path):
        with straight_into(path) as file:
            yield file
        return
    aside = path.with_name(f".{os.urandom(8).hex()}.part")  # short, whatever the length of the final name
    try:
        with open(aside, "xb") as file:
            yield file
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def is_own_file(path: Path) -> bool:
    """A regular file, or nothing yet: no device, pipe or folder, and no link, which may lead to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return True


def straight_into(path: Path) -> IO[bytes]:
    """/dev/stdout is our own output: opening it again would overwrite a file behind it from its beginning."""
    sys.stdout.flush()
    return open(os.dup(1) if is_our_output(path) else path, "wb")


def is_our_output(path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(1))
    return False
