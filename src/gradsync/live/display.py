"""How far runs are that were started from Python: on a terminal, in a pipe, in a notebook, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from gradsync.draw.console import make_console
from gradsync.live.notebook import WatchCell, in_notebook
from gradsync.live.progress import WatchRun

Watch = Callable[..., AbstractContextManager[Any]]


class Display:
    """``progress``: show it at all."""

    def __init__(self, progress: bool = True) -> None:
        self._is_silent = not progress
        self._in_cell = progress and in_notebook()
        self.console = Console(quiet=True) if self._is_silent or self._in_cell else make_console(json=False)

    def of_runs(self, log_every: int) -> Callable[[int, int], Watch]:
        """Of runs with processes of their own, given how many of how many are finished already."""
        return self.of_study() or (lambda begun, runs: WatchRun(self.console, log_every, begun, runs))

    def of_study(self) -> Callable[[int, int], Watch] | None:
        """Of runs that may share processes. None: as the command line shows them."""
        if self._in_cell:
            return WatchCell
        return (lambda begun, runs: silent) if self._is_silent else None


def silent(*_: Path) -> AbstractContextManager[None]:
    return nullcontext()
