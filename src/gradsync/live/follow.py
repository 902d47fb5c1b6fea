"""Rows of all ranks as they are written, handed to the listeners that show them."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from gradsync.record import Row, rank_files
from gradsync.record.rows import decode, shapes_in
from gradsync.record.shape import Wrong

POLL_SECONDS = 0.25  # often enough for the eye, rare enough not to be felt by the training


class Listener(Protocol):
    def show(self, rank: int, row: Row) -> None:
        """Called for each new row."""

    def refresh(self) -> None:
        """Called after all new rows have been shown."""


class Follower:
    """Reads the rows that were written since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shapes = shapes_in(path.parent)
        self._offset = 0

    def new_rows(self) -> list[Row]:
        """Damaged rows are skipped here; they are reported when the summary is written."""
        if not self._path.is_file():
            return []
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = []
        for line in whole.split(b"\n")[:-1]:
            with suppress(Wrong):
                rows.append(decode(line, self._shapes))
        return rows


@contextmanager
def following(folders: Sequence[Path], listeners: Sequence[Listener]) -> Iterator[None]:
    """A thread hands new rows to the listeners, run by run, until the block ends, and then the last ones."""
    followers: dict[Path, Follower] = {}
    listening = list(listeners)
    ended = threading.Event()

    def tell(what: Callable[[Listener], None]) -> None:
        """A listener that fails is dropped: the others, and the run, continue."""
        for listener in list(listening):
            try:
                what(listener)
            except OSError:
                pass  # the reader of a pipe may have gone
            except Exception:
                listening.remove(listener)
                traceback.print_exc()

    def show_new_rows() -> None:
        for rank, path in ((rank, path) for folder in folders for rank, path in rank_files(folder).items()):
            follower = followers.setdefault(path, Follower(path))
            for row in follower.new_rows():
                tell(lambda listener, rank=rank, row=row: listener.show(rank, row))  # type: ignore[misc]
        tell(lambda listener: listener.refresh())

    def follow() -> None:
        while True:
            last = ended.wait(POLL_SECONDS)
            show_new_rows()
            if last:
                return

    thread = threading.Thread(target=follow, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
