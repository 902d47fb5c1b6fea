"""Documents on a terminal of any width: no number and no name is ever split."""

from gradsync.draw.terminal.show import draw

__all__ = ["draw"]
