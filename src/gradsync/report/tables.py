"""How all tables look."""

from __future__ import annotations

from rich import box
from rich.padding import PaddingDimensions
from rich.table import Table

NOTHING = "–"
WIDEST = 78  # of a title that makes its table wider: any terminal has it


def plain_table(title: str, caption: str | None = None, padding: PaddingDimensions = (0, 1)) -> Table:
    """A line below the headings and no others. Not narrower than its title, which would be broken."""
    return Table(
        min_width=min(len(title), WIDEST),
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=padding,
    )
