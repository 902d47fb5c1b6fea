"""The errors for a record that cannot be read, and how its JSON is read without raising any others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from gradsync.errors import InputError
from gradsync.record.shape import Wrong
from gradsync.text import printable


class UnreadableRecord(InputError):
    """A record of another version, or not a record of ours at all. ``reason`` is one line."""

    word = ""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        self.reason = " ".join(printable(reason).split())
        super().__init__(f"{printable(folder)}: {self.word}{self.reason}")


class DamagedRecord(UnreadableRecord):
    """The reason names the file, the line and the field."""

    word = "damaged: "


def no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


_DECODER = json.JSONDecoder(parse_constant=no_number)


def parse(content: bytes) -> Any:
    """The value of JSON text, with every string made safe for a terminal. Raises ``Wrong``."""
    try:
        text = content.decode()
        value = _DECODER.decode(text)
        return value if is_plain(text) else cleaned(value)
    except RecursionError:
        raise Wrong("it is nested too deeply") from None
    except ValueError as error:  # invalid UTF-8 or JSON, or a number with more than 4,300 digits
        raise Wrong(f"it is not JSON: {error}") from None


def is_plain(text: str) -> bool:
    """Whether its strings are sure to have no control characters: JSON escapes most of these with a backslash."""
    return text.isascii() and "\\" not in text and "\x7f" not in text


def cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {printable(name): cleaned(item) for name, item in value.items()}
    return value


def read_json(path: Path) -> Any:
    """The content of a record's file, which must exist. Only regular files are opened: a pipe would never end."""
    try:
        if not path.is_file():
            raise Wrong("it is not a file")
        return parse(path.read_bytes())
    except OSError as error:
        raise DamagedRecord(path.parent, f"{path.name}: {error.strerror or error}") from None
    except Wrong as wrong:
        raise DamagedRecord(path.parent, f"{path.name}: {wrong}") from None
