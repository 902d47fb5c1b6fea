"""The one walker over folders: studies, runs, and what is neither."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from gradsync.errors import InputError
from gradsync.record.folder import is_probe, is_run
from gradsync.text import printable

STUDY_FILE = "study.json"
DEEPEST = 3  # folders below the one that is given: studies/NAME/runs/RUN is that deep

Kind = Literal["study", "run", "other"]


class FolderKind(NamedTuple):
    kind: Kind
    path: Path


def is_study(folder: Path) -> bool:
    return os.path.exists(folder / STUDY_FILE)


def walk(path: Path, depth: int = DEEPEST) -> Iterator[FolderKind]:
    """Every study and run at or below ``path``, in the order of their names; it does not look inside these.

    A folder with neither is yielded once, under its own name.
    """
    if is_study(path):
        yield FolderKind("study", path)
    elif is_run(path):
        whole = path.parent if is_probe(path) and is_probe(path.parent) else path  # one transport of a benchmark
        yield FolderKind("run", whole)
    else:
        inside = folders_in(path) if depth else []
        below = [place for folder in inside for place in walk(folder, depth - 1)]
        yield from below if any(place.kind != "other" for place in below) else [FolderKind("other", path)]


def folders_in(path: Path) -> list[Path]:
    try:
        found = (item for item in path.iterdir() if item.is_dir() and not item.name.startswith("."))
        return sorted(found) if path.is_dir() else []
    except OSError as error:
        raise InputError(f"{printable(path)}: {error.strerror}. Give run folders, or folders of them.") from None
