"""What wandb has written offline, read with its own message types."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK, HEADER = 32_768, 7  # of the log format of LevelDB, which the file has; its own header is as long
WHOLE, LAST = 1, 4


class WandbFile:
    """The first file below a folder: the run, its history, its config and its summary."""

    def __init__(self, folder: Path) -> None:
        (path,) = folder.rglob("*.wandb")
        self.run: Any = None
        self.exit_code: int | None = None
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        for record in records(path.read_bytes()):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
            elif kind == "exit":
                self.exit_code = record.exit.exit_code
            elif kind == "history":
                self.history.append(values(record.history.item))
            elif kind == "summary":
                self.summary |= values(record.summary.update)

    @property
    def config(self) -> dict[str, Any]:
        return values(self.run.config.update)

    def series(self, tag: str) -> list[tuple[int, float]]:
        return [(row["step"], row[tag]) for row in self.history if tag in row]


def values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def records(data: bytes) -> Iterator[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    place, parts = HEADER, b""
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (WHOLE, LAST):
            record = Record()
            record.ParseFromString(parts)
            parts = b""
            yield record
