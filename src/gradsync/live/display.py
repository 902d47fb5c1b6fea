"""How far runs are that were started from Python: on a terminal, in a pipe, in a notebook, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from gradsync.draw.console import make_console
from gradsync.live.notebook import WatchCell, in_notebook
from gradsync.live.progress import WatchRun, trackers_of
from gradsync.live.trackers.running import tracked

Watch = Callable[..., AbstractContextManager[Any]]
WatchMaker = Callable[[int, int], AbstractContextManager[Watch]]


class Display:
    """``progress``: show it at all."""

    def __init__(self, progress: bool = True) -> None:
        self._is_silent = not progress
        self._in_cell = progress and in_notebook()
        self.console = Console(quiet=True) if self._is_silent or self._in_cell else make_console(json=False)

    def of_runs(self, log_every: int) -> WatchMaker:
        """Of runs with processes of their own, given how many of how many are finished already."""
        return self.of_study() or (lambda begun, runs: WatchRun(self.console, log_every, begun, runs))

    def of_study(self) -> WatchMaker | None:
        """Of runs that may share processes. None: as the command line shows them."""
        if self._in_cell:
            return lambda begun, runs: Tracked(WatchCell(begun, runs))
        return (lambda begun, runs: Tracked(silent)) if self._is_silent else None


class Tracked:
    """A display of runs, and their trackers: these are told of the end when the next runs begin, or on leaving it."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._trackers = ExitStack()

    def __enter__(self) -> Watch:
        return self._begin

    def __exit__(self, *_: object) -> None:
        self._trackers.close()

    def _begin(self, *folders: Path) -> AbstractContextManager[Any]:
        self._trackers.close()
        for folder in folders:
            self._trackers.enter_context(tracked(folder, trackers_of(folder)))
        return self._watch(*folders)


def silent(*_: Path) -> AbstractContextManager[None]:
    return nullcontext()
