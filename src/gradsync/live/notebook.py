"""Progress in a cell of a notebook: one line and a bar, which vanish when the runs have ended.

It needs no widgets: the output of the cell is replaced, as often as the eye can follow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from gradsync.live.follow import following
from gradsync.live.progress import Pace, loss_text
from gradsync.record import Row


def in_notebook() -> bool:
    """Whether this is a kernel whose output is drawn by a notebook, and not a plain or an interactive terminal."""
    session = sys.modules.get("IPython")
    shell = session.get_ipython() if session else None
    return shell is not None and getattr(shell, "kernel", None) is not None


class WatchCell:
    """Call with the folders of runs while their ranks are running."""

    def __init__(self, begun: int = 0, runs: int = 1) -> None:
        """``runs``: how many there are in all; ``begun``: how many of these are finished already."""
        self._begun = begun
        self._runs = runs
        self._pace: Pace | None = None
        self._text, self._share = "starting", 0.0

    @contextmanager
    def __call__(self, *folders: Path) -> Iterator[None]:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle: Any = display(HTML(self.html()), display_id=True)
        try:
            with following(folders, [self]):
                yield
        finally:
            self._handle.update(HTML(""))

    def show(self, rank: int, row: Row) -> None:
        if rank:
            return
        if row["kind"] == "start":
            self._pace = Pace(row)
            self._begun += 1
            self._text, self._share = "starting", 0.0
        elif row["kind"] == "step" and self._pace:
            self._pace.add(row)
            self._share = row["step"] / self._pace.start["steps"]
            loss = f"loss {loss_text(row)}, " if "loss" in row else ""
            self._text = (
                f"step {row['step']:,} of {self._pace.start['steps']:,}, {loss}"
                f"{self._pace.samples_per_second:,.0f} samples/s, {self._pace.seconds_left(row['step']):.0f} s left"
            )

    def refresh(self) -> None:
        self._handle.update(self._html(self.html()))

    def html(self) -> str:
        name = f"{self._pace.start['strategy']}: " if self._pace else ""
        place = f"run {self._begun} of {self._runs}: " if self._runs > 1 and self._pace else ""
        bar = f'<progress max="1" value="{self._share:.3f}"></progress>'
        return f"<div>{bar} {escape(place + name + self._text)}</div>"
