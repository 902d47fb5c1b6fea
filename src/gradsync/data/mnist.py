"""MNIST in its own format: idx files, gzipped or not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gradsync.data.files import Download, FileSet, Part, Source, gunzip, places
from gradsync.data.images import Images
from gradsync.data.rows import EVERYTHING, Field, Labels, Parts, ReadRows, RowFile, Rows, Wanted, map_rows
from gradsync.errors import InputError, truncated

LONGEST_HEAD = 4 + 4 * 3
AGAIN = "HINT: delete it and get it again with `gradsync data fetch mnist`."
MEAN, STD = (0.1307,), (0.3081,)

CONTENTS = {
    "train-images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
ARCHIVES = {
    "train-images": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels": "ec29112dd5afa0611ce80d1b7f02629c",
}
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


def file_name(part: str, separator: str = "-") -> str:
    return f"{part}{separator}idx{3 if part.endswith('images') else 1}-ubyte"


def find_part(folder: Path, part: str) -> Path | None:
    for place in [*places(folder, "mnist"), folder / "MNIST" / "raw"]:
        for separator in "-.":
            for ending in ("", ".gz"):
                path = place / (file_name(part, separator) + ending)
                if path.is_file():
                    return path
    return None


def locate(folder: Path) -> Source | None:
    found = {part: path for part in CONTENTS if (path := find_part(folder, part))}
    if len(found) < len(CONTENTS):
        return None

    def read() -> Iterator[Part]:
        for part, path in found.items():
            data = path.read_bytes()
            yield Part(part, path, gunzip(data) if path.suffix == ".gz" else data)

    packed = any(path.suffix == ".gz" for path in found.values())
    place = next(iter(found.values())).parent
    return Source(place, "idx.gz" if packed else "idx", read, {} if packed else found)


MNIST = FileSet(
    name="mnist",
    contents=CONTENTS,
    locate=locate,
    expected=(f"the four files {', '.join(file_name(part) for part in CONTENTS)}, each with or without .gz",),
    downloads=tuple(
        Download(f"{file_name(part)}.gz", md5, tuple(f"{mirror}{file_name(part)}.gz" for mirror in MIRRORS))
        for part, md5 in ARCHIVES.items()
    ),
)


def load(parts: Parts = EVERYTHING, verify: bool = True, read: ReadRows = map_rows) -> tuple[Images, Images]:
    files = MNIST.files(verify=verify)
    return images(files, "train", parts.train, read), images(files, "t10k", parts.test)


def images(files: dict[str, Path | bytes], name: str, wanted: Wanted, read: ReadRows = map_rows) -> Images:
    pixels, labels = idx(files[f"{name}-images"], 3, 28 * 28), idx(files[f"{name}-labels"], 1, 1)
    if pixels.count != labels.count:
        raise InputError(f"mnist has {pixels.count:,} {name} images and {labels.count:,} labels for them. {AGAIN}")
    count, begin, end = wanted.of(pixels.count)
    return Images(
        Field(Rows([pixels], begin, end, read), count, slice(None), (28, 28, 1)),
        Labels(Rows([labels], begin, end, read), count, 0),
        *(MEAN, STD),
    )


def idx(content: Path | bytes, dimensions: int, row_bytes: int) -> RowFile:
    """An idx file of bytes: two zeros, type 8, number of dimensions, their sizes as big-endian 32-bit numbers."""
    if isinstance(content, Path):
        with open(content, "rb") as file:
            head = file.read(LONGEST_HEAD)
    else:
        head = content[:LONGEST_HEAD]
    name = content if isinstance(content, Path) else "the unpacked file"
    if head[:3] != b"\0\0\x08"[: len(head)]:
        raise InputError(f"{name} is not an idx file of bytes: it begins with {head[:4].hex(' ')}. {AGAIN}")
    if len(head) < 4 + 4 * dimensions:
        raise truncated(name, 4 + 4 * dimensions, len(head))
    count, *sizes = np.frombuffer(head, ">u4", dimensions, offset=4).astype(int).tolist()
    if head[3] != dimensions:
        raise InputError(f"{name} has {head[3]} dimensions instead of {dimensions}. {AGAIN}")
    if math.prod(sizes) != row_bytes:
        raise InputError(f"{name} has rows of {'×'.join(map(str, sizes)) or 1} bytes instead of {row_bytes}. {AGAIN}")
    return RowFile(content, 4 + 4 * dimensions, row_bytes, count)
