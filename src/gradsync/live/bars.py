"""A progress bar below its facts, which a narrow terminal gets on several lines and never cut off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TimeRemainingColumn
from rich.text import Text

WIDTH = 30  # of a bar: with step, steps and time left it fits on a line of 60 columns
STEPS = (SpinnerColumn(), BarColumn(WIDTH), MofNCompleteColumn(), TimeRemainingColumn())
SHARE = (SpinnerColumn(), BarColumn(WIDTH))


class Bars(Progress):
    """Vanishes when it ends. A task has ``facts``: names and numbers, a text each, the most important ones first."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            yield from map(Text, lines_of(task.fields["facts"], self.console.width))
            yield self.make_tasks_table([task])


def bars_of_steps(console: Console) -> Bars:
    """How many of how many are done, and the time left at that pace."""
    return Bars(*STEPS, console=console, transient=True, refresh_per_second=4)


def bars_of_work(console: Console) -> Bars:
    """Work that is not counted in steps."""
    return Bars(*SHARE, console=console, transient=True, refresh_per_second=4)


def lines_of(facts: Sequence[str], width: int) -> Iterator[str]:
    """Facts between commas, as many on each line as fit whole; one that is too long for a line ends within words."""
    line = ""
    for index, fact in enumerate(facts):
        text = f"{fact}," if index < len(facts) - 1 else fact
        longer = f"{line} {text}".strip()
        if line and cell_len(longer) > width:
            yield line
            line = text
        else:
            line = longer
    if line:
        yield line
