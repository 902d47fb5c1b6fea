"""CIFAR-10 from its binary or its python batches, unpacked or as the tar.gz of either.

All four are converted to the rows of the binary format (label, then 3×32×32 bytes), which are then hashed: one set
of hashes covers every format.
"""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gradsync.data.files import Download, FileSet, Part, Source, check, places
from gradsync.data.images import Images
from gradsync.data.rows import EVERYTHING, Labels, Parts, Planes, ReadRows, RowFile, Rows, Wanted, map_rows

MEAN = (125.3 / 255, 123.0 / 255, 113.9 / 255)
STD = (63.0 / 255, 62.1 / 255, 66.7 / 255)
PADDING = 4
ROW_BYTES = 1 + 3 * 32 * 32
ROWS = 10_000  # in each of the six files

CONTENTS = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
BINARY_ARCHIVE = ("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d13530")
PYTHON_ARCHIVE = ("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")
HOME = "https://www.cs.toronto.edu/~kriz/"


class BatchUnpickler(pickle.Unpickler):
    """Reads dictionaries of arrays and nothing else: a pickle can otherwise run any code it likes."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.empty(0).__reduce__()[0]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in the old protocol
            return lambda text, encoding: text.encode("latin1")
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a CIFAR-10 batch does not need")


def rows_of_python_batch(data: bytes) -> bytes:
    """The binary rows of a python batch; if it cannot be read, its own bytes, so that the hash check fails."""
    try:
        batch = BatchUnpickler(io.BytesIO(data), encoding="bytes").load()
        labels = np.asarray(batch[b"labels"], np.uint8)[:, None]
        return np.concatenate([labels, batch[b"data"]], axis=1).tobytes()
    except Exception:
        # Truncated and altered pickles fail in many ways, which all mean the same to the user.
        return data


def as_is(data: bytes) -> bytes:
    return data


# folder, file ending, archive with its md5, decoder
FORMS: tuple[tuple[str, str, tuple[str, str], Callable[[bytes], bytes]], ...] = (
    ("cifar-10-batches-bin", ".bin", BINARY_ARCHIVE, as_is),
    ("cifar-10-batches-py", "", PYTHON_ARCHIVE, rows_of_python_batch),
)


def locate(folder: Path) -> Source | None:
    for place in places(folder, "cifar10"):
        for name, ending, (archive, md5), decode in FORMS:
            files = {part: place / name / f"{part}{ending}" for part in CONTENTS}
            if all(path.is_file() for path in files.values()):
                return Source(
                    place / name, name, partial(read_files, files, decode), files if decode is as_is else {}
                )
            if (place / archive).is_file():
                members = {f"{name}/{part}{ending}": part for part in CONTENTS}
                return Source(place / archive, archive, partial(read_archive, place / archive, members, md5, decode))
    return None


def read_files(files: dict[str, Path], decode: Callable[[bytes], bytes]) -> Iterator[Part]:
    for part, path in files.items():
        yield Part(part, path, decode(path.read_bytes()))


def read_archive(path: Path, members: dict[str, str], md5: str, decode: Callable[[bytes], bytes]) -> Iterator[Part]:
    """In one pass, in the archive's own order: a gzip cannot be read from the middle."""
    found = {}
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name in members else None
                if file:
                    found[members[member.name]] = file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error):
        pass
    if len(found) < len(members):
        check(path, path.name, "md5", md5, path.read_bytes())
    for part, data in found.items():
        yield Part(part, path, decode(data))


CIFAR10 = FileSet(
    name="cifar10",
    contents=CONTENTS,
    locate=locate,
    expected=("cifar-10-batches-bin/", "cifar-10-batches-py/", BINARY_ARCHIVE[0], PYTHON_ARCHIVE[0]),
    downloads=(Download(*BINARY_ARCHIVE, urls=(HOME + BINARY_ARCHIVE[0],)),),
)


def load(parts: Parts = EVERYTHING, verify: bool = True, read: ReadRows = map_rows) -> tuple[Images, Images]:
    files = CIFAR10.files(verify=verify)
    train = [row_file(files[name]) for name in sorted(files) if name != "test_batch"]
    return images(train, parts.train, read, PADDING), images([row_file(files["test_batch"])], parts.test)


def row_file(content: Path | bytes) -> RowFile:
    """A file and the number of rows it must have, so that one that has become shorter is noticed when it is read."""
    return RowFile(content, 0, ROW_BYTES, ROWS)


def images(files: list[RowFile], wanted: Wanted, read: ReadRows = map_rows, padding: int = 0) -> Images:
    count, begin, end = wanted.of(sum(file.count for file in files))
    rows = Rows(files, begin, end, read)
    return Images(Planes(rows, count, slice(1, None), (32, 32, 3)), Labels(rows, count, 0), MEAN, STD, padding)
