"""The run folder: config.json in, one rank-N.jsonl per rank while it runs, summary.json last.

Everything a table or report needs is here, and nothing here needs torch. docs/record.md lists the fields.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsync.errors import InputError

SCHEMA = 3
PROBE_FILE = "probe.json"  # what a collective benchmark was asked, and how its folder is told from a run's

Row = dict[str, Any]


def create_folder(out: Path, name: str) -> Path:
    """A folder nobody else has: two runs in the same second get different ones."""
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


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Written aside, then moved: a reader sees the whole file or none."""
    aside = path.with_name(path.name + ".part")
    aside.write_text(strict_json(value, indent) + "\n", encoding="utf-8")
    os.replace(aside, path)


def strict_json(value: Any, indent: int | None = None) -> str:
    """Looks for what is not a number only if there is one: a rank writes a row every step."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), indent=indent, allow_nan=False)


def finite(value: Any) -> Any:
    """JSON has no NaN: what is not a number is written as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class RankLog:
    """One rank's rows, each on disk before the next step starts, so that a killed run keeps them all.

    Two threads write: the training's, and the one that samples the host.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self._file = open(rank_file(folder, rank), "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._one_at_a_time = threading.Lock()

    def write(self, kind: str, **values: Any) -> None:
        row = strict_json({"kind": kind, **values}) + "\n"
        with self._one_at_a_time:
            self._file.write(row)

    def close(self) -> None:
        self._file.close()


def log_file(folder: Path, rank: int, stream: str) -> Path:
    """What a rank printed; ``stream`` is out or err."""
    return folder / "logs" / f"rank-{rank}.{stream}"


def model_file(folder: Path, rank: int | None = None) -> Path:
    """The trained model; where workers each have their own, until it is known which one is the run's: a rank's."""
    return folder / ("model.pt" if rank is None else f"model-{rank}.pt")


def rank_file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.jsonl"


def rank_files(folder: Path) -> dict[int, Path]:
    """The ranks that have written so far."""
    return {int(path.stem.removeprefix("rank-")): path for path in sorted(folder.glob("rank-*.jsonl"))}


def read_rows(path: Path) -> Iterator[Row]:
    """Every whole row; the last line of a killed process may be half written."""
    if not path.exists():
        return
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


@dataclass(frozen=True)
class Run:
    """A run folder as found on disk."""

    folder: Path
    config: dict[str, Any]
    summary: dict[str, Any] | None

    @property
    def status(self) -> str:
        return self.summary["status"] if self.summary else "unfinished"

    @property
    def stopped_by(self) -> str | None:
        """The name of the signal, if one interrupted the run."""
        error = self.summary["error"] if self.summary else None
        return error.get("signal") if error else None

    @property
    def out_of_memory(self) -> bool:
        """Whether it failed because what it asked for does not fit."""
        error = self.summary["error"] if self.summary else None
        return bool(error and error.get("out_of_memory"))


def is_probe(folder: Path) -> bool:
    return (folder / PROBE_FILE).exists()


def read_run(folder: Path) -> Run:
    """A run, or a collective benchmark."""
    settings = PROBE_FILE if is_probe(folder) else "config.json"
    try:
        config = json.loads((folder / settings).read_text(encoding="utf-8"))
        summary_file = folder / "summary.json"
        summary = json.loads(summary_file.read_text(encoding="utf-8")) if summary_file.exists() else None
    except FileNotFoundError:
        raise InputError(
            f"{folder} is not a run folder: it has no config.json. Give the folders that "
            "`gradsync train` or `gradsync compare` printed, for instance runs/*."
        ) from None
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"cannot read the run in {folder}: {error}.") from None
    return Run(folder, config, summary)


STAMPS = ("phases", "collectives")


def rank_rows(folder: Path, world_size: int, stamps_until: int | None = None) -> list[list[Row]]:
    """All rows of all ranks. ``stamps_until``: leave out the stamps of later steps, which are most of the bytes."""
    return [[thinned(row, stamps_until) for row in read_rows(rank_file(folder, rank))] for rank in range(world_size)]


def thinned(row: Row, stamps_until: int | None) -> Row:
    if stamps_until is not None and row["kind"] == "step" and row["step"] > stamps_until:
        return {name: value for name, value in row.items() if name not in STAMPS}
    return row
