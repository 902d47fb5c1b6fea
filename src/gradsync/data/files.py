"""Data files: where they are looked for, and whether their content is correct."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_cache_path

from gradsync.errors import InputError
from gradsync.record.writing import write_whole


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
    plain: dict[str, Path] = field(default_factory=dict)
    """part -> the file that holds its content and nothing else, where there are such files"""


@dataclass(frozen=True)
class Download:
    """One file of a data set and the addresses to get it from."""

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

    def source(self, folder: Path | None = None) -> Source:
        folder = folder or data_folder()
        source = self.locate(folder)
        if source is None:
            raise InputError(
                f"{self.name} is not in {folder}. gradsync looked there and below it for "
                f"{', or '.join(self.expected)}.\nEither run `gradsync data fetch {self.name}`, or put the "
                "files there (or set GRADSYNC_DATA to the folder that has them)."
            )
        return source

    def files(self, folder: Path | None = None, verify: bool = True) -> dict[str, Path | bytes]:
        """part -> the file with its content, to be read as needed. Archives are unpacked once.

        Without ``verify`` the hashes are not checked: the command that started the ranks has done so.
        """
        source = self.source(folder)
        if source.plain:
            if verify:
                for name, path in source.plain.items():
                    check_file(path, name, self.contents[name])
            return dict(source.plain)
        unpacked = {name: user_cache_path("gradsync") / "unpacked" / digest for name, digest in self.contents.items()}
        if all(path.is_file() for path in unpacked.values()):
            if verify:
                for name, path in unpacked.items():
                    check_file(path, name, self.contents[name])
            return dict(unpacked)
        contents = self.read(folder)
        try:
            for name, path in unpacked.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, contents[name])
        except OSError:  # no space or no permission to write: use the content in memory
            return dict(contents)
        return dict(unpacked)

    def read(self, folder: Path | None = None) -> dict[str, bytes]:
        """Every part, each checked against its hash."""
        parts = {}
        for part in self.source(folder).read():
            check(part.file, part.name, "sha256", self.contents[part.name], part.content)
            parts[part.name] = part.content
        return parts


def check(file: Path, name: str, kind: str, expected: str, content: bytes) -> None:
    found = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
    refuse_other(file, name, kind, expected, found, len(content))


def check_file(path: Path, name: str, expected: str) -> None:
    """The hash of a file, read piece by piece."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
        refuse_other(path, name, "sha256", expected, digest.hexdigest(), file.tell())


def refuse_other(file: Path, name: str, kind: str, expected: str, found: str, length: int) -> None:
    if found != expected:
        raise InputError(
            f"{file} is truncated or altered: {kind} of {name} should be {expected}, found {found} "
            f"({length:,} bytes). Delete it and get it again, for instance with `gradsync data fetch`."
        )


def gunzip(data: bytes) -> bytes:
    """The content of a gzip file; of a damaged one, as much as can be read, so that the hash check fails."""
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error):
        try:
            return zlib.decompressobj(31).decompress(data)
        except zlib.error:
            return data


def places(folder: Path, name: str) -> list[Path]:
    return [folder, folder / name]
