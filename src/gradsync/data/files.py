"""Data files: where they are looked for, and whether they hold what they should."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from gradsync.errors import InputError


def data_folder() -> Path:
    """$GRADSYNC_DATA, or the user's cache folder."""
    chosen = os.environ.get("GRADSYNC_DATA")
    return Path(chosen).expanduser() if chosen else user_cache_path("gradsync")


@dataclass(frozen=True)
class Part:
    """One piece of a data set, whatever file it came from."""

    name: str
    file: Path
    content: bytes


@dataclass(frozen=True)
class Source:
    """A complete data set found on disk."""

    path: Path
    form: str
    read: Callable[[], Iterator[Part]]


@dataclass(frozen=True)
class Download:
    """One file of a data set and the places that have it."""

    file: str
    md5: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class FileSet:
    """A published data set: how to find it, what its content must be, where to get it."""

    name: str
    contents: dict[str, str]
    """part -> sha256 of its content, the same for every file format"""

    locate: Callable[[Path], Source | None]
    expected: tuple[str, ...]
    downloads: tuple[Download, ...]

    def find(self, folder: Path | None = None) -> Source:
        folder = folder or data_folder()
        source = self.locate(folder)
        if source is None:
            raise InputError(
                f"{self.name} is not in {folder}. Looked there and below it for "
                f"{', or '.join(self.expected)}.\nTwo ways out: run `gradsync data fetch {self.name}`, or put the "
                "files there (or set GRADSYNC_DATA to the folder that has them)."
            )
        return source

    def read(self, folder: Path | None = None) -> dict[str, bytes]:
        """Every part, each checked against its hash."""
        parts = {}
        for part in self.find(folder).read():
            check(part.file, part.name, "sha256", self.contents[part.name], part.content)
            parts[part.name] = part.content
        return parts


def check(file: Path, name: str, kind: str, expected: str, content: bytes) -> None:
    found = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise InputError(
            f"{file} is truncated or altered: {kind} of {name} should be {expected}, found {found} "
            f"({len(content):,} bytes). Delete it and get it again, for instance with `gradsync data fetch`."
        )


def gunzip(data: bytes) -> bytes:
    """What a gzip file holds; of a damaged one, as much as can be read, for its hash to be wrong."""
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error):
        try:
            return zlib.decompressobj(31).decompress(data)
        except zlib.error:
            return data


def places(folder: Path, name: str) -> list[Path]:
    return [folder, folder / name]
