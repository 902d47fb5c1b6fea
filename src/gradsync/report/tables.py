"""How all tables look, and words they share with the progress."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.padding import PaddingDimensions
from rich.table import Table

NOTHING = "–"


def plain_table(title: str, caption: str | None = None, padding: PaddingDimensions = (0, 1)) -> Table:
    """A line below the headings and no others."""
    return Table(
        title=escape(title),
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=padding,
    )


def counted(count: int, noun: str) -> str:
    """1 worker, 2 workers."""
    return f"{count} {noun}{'s' * (count > 1)}"
