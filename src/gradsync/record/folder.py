"""The run folder: config.json and resolved.json first, one rank-N.jsonl per rank while it runs, summary.json last."""

from __future__ import annotations

import json
import math
import os
import re
import time
from pathlib import Path
from typing import Any

from gradsync.config.values import LIMITS
from gradsync.errors import InputError
from gradsync.record.writing import write_whole
from gradsync.text import printable

CONFIG_FILE, RESOLVED_FILE, SUMMARY_FILE = "config.json", "resolved.json", "summary.json"
OBJECTS_FILE = "objects.pkl"  # what was defined in a Python session; only the ranks of the run read it
PROBE_FILE = "probe.json"  # settings of a collective benchmark; they distinguish its folder from a run's

MOST_RANKS = int(LIMITS["workers"][1] + LIMITS["servers"][1])
RANK_FILE = re.compile(r"rank-(0|[1-9][0-9]{0,5})\.jsonl")


def create_folder(out: Path, name: str) -> Path:
    """Create a new folder: two runs in the same second get different ones."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 1000):
            folder = out / (f"{stamp}-{name}" if attempt == 1 else f"{stamp}-{name}-{attempt}")
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                continue
    except OSError as error:
        raise InputError(
            f"cannot write to the output folder {out}: {error.strerror or error}. "
            "Choose another with --out, or make it writable."
        ) from None
    raise InputError(f"{out} holds a thousand runs named {stamp}-{name}: choose another --out.")


def has_files(folder: Path) -> bool:
    """Anything but hidden files, such as the lock of a study that was interrupted before it began."""
    try:
        return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot read {printable(folder)}: {error.strerror or error}.") from None


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    write_whole(path, strict_json(value, indent) + "\n")


def strict_json(value: Any, indent: int | None = None) -> str:
    """Values are searched for NaN and infinity only if there is one, as a rank writes a row every step."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), indent=indent, allow_nan=False)


def finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: both are written as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class RankLog:
    """One rank's rows, each on disk before the next step starts, so that a killed run keeps them all.

    Two threads write: the training thread, and the one that samples the host; and a signal handler may, in the middle
    of ``write``. There is no lock that it could wait for in vain, as the kernel appends a row in one piece.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self._file = open(rank_file(folder, rank), "ab", buffering=0)  # noqa: SIM115

    def write(self, kind: str, **values: Any) -> None:
        row = (strict_json({"kind": kind, **values}) + "\n").encode()
        written = self._file.write(row)
        while written < len(row):  # the disk is full: either there is room again, or nothing stays of this row
            try:
                written += self._file.write(row[written:])
            except OSError:
                self._file.truncate(self._file.seek(0, os.SEEK_END) - written)
                raise

    def close(self) -> None:
        self._file.close()


def log_file(folder: Path, rank: int, stream: str) -> Path:
    """What a rank printed; ``stream`` is out or err."""
    return folder / "logs" / f"rank-{rank}.{stream}"


def model_file(folder: Path, rank: int | None = None) -> Path:
    """The trained model; if every worker has its own, that of a rank until it is known which one is the run's."""
    return folder / ("model.pt" if rank is None else f"model-{rank}.pt")


def rank_file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.jsonl"


def rank_files(folder: Path) -> dict[int, Path]:
    """The ranks that have written so far. Other files, such as somebody's copy of one, are not the run's."""
    named = ((RANK_FILE.fullmatch(path.name), path) for path in folder.glob("rank-*.jsonl"))
    found = {int(match[1]): path for match, path in named if match}
    return {rank: found[rank] for rank in sorted(found) if rank < MOST_RANKS}


def is_probe(folder: Path) -> bool:
    return os.path.exists(folder / PROBE_FILE)  # False also where access is denied


def is_run(folder: Path) -> bool:
    """Whether a run or a collective benchmark was made here."""
    return os.path.exists(folder / CONFIG_FILE) or is_probe(folder)
