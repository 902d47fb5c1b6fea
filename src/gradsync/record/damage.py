"""The errors for a record that cannot be read, and how its JSON is, so that no others come of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from gradsync.errors import InputError
from gradsync.record.shape import Wrong
from gradsync.text import printable


class UnreadableRecord(InputError):
    """Of another version, or none of ours at all. ``reason`` is one line."""

    word = ""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        self.reason = " ".join(printable(reason).split())
        super().__init__(f"{printable(folder)}: {self.word}{self.reason}")


class DamagedRecord(UnreadableRecord):
    """The reason names the file, the line and the field."""

    word = "damaged: "


def no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=no_number)


def parse(content: bytes) -> Any:
    """The JSON in it, with nothing in its texts that a terminal would obey. Raises ``Wrong``."""
    try:
        text = content.decode()
        value = _DECODER.decode(text)
        return value if is_plain(text) else cleaned(value)
    except RecursionError:
        raise Wrong("it is nested too deeply") from None
    except ValueError as error:  # of UTF-8, of JSON, of a number with more than 4,300 digits
        raise Wrong(f"it is not JSON: {error}") from None


def is_plain(text: str) -> bool:
    """Whether its strings cannot have control characters: JSON writes most of these with a backslash."""
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
    """A file of a record that is there. What is no regular file is not opened: a pipe would never end."""
    try:
        if not path.is_file():
            raise Wrong("it is not a file")
        return parse(path.read_bytes())
    except OSError as error:
        raise DamagedRecord(path.parent, f"{path.name}: {error.strerror or error}") from None
    except Wrong as wrong:
        raise DamagedRecord(path.parent, f"{path.name}: {wrong}") from None
