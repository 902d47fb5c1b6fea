"""Which steps of a run are timed. The first one never is: it pays for warming up."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gradsync.config.values import LIMITS, shown
from gradsync.errors import InputError

FIRST_TIMED = 2
DEFAULT_WINDOW = "2:40"  # as in the VGG-11 reports

FORMS = re.compile(r"(?P<first>\d{1,10}):(?P<last>\d{1,10})|all|last:(?P<count>\d{1,10})", re.ASCII)


@dataclass(frozen=True)
class Window:
    """Steps ``first`` to ``last``, both included; without ``last`` all from ``first`` on, or the last ``count``."""

    first: int = FIRST_TIMED
    last: int | None = None
    count: int | None = None

    def bounds(self, steps: int) -> tuple[int, int]:
        """First and last timed step of a run of this many steps; first is greater than last if none is timed."""
        if self.count is not None:
            return max(FIRST_TIMED, steps - self.count + 1), steps
        return self.first, steps if self.last is None else min(self.last, steps)


def parse_window(text: str) -> Window:
    found = FORMS.fullmatch(text)
    if not found:
        raise InputError(
            f"--window is {shown(text)}: it must be the first and the last step to be timed, for instance "
            f"{DEFAULT_WINDOW}, or all, or last:100 for the last hundred."
        )
    if found["count"]:
        return Window(count=within(text, int(found["count"]), least=1))
    if not found["first"]:
        return Window()
    first, last = within(text, int(found["first"])), within(text, int(found["last"]))
    if first < FIRST_TIMED:
        raise InputError(
            f"--window is {shown(text)}: the first step is never timed, as it pays for warming up. "
            f"HINT: begin with {FIRST_TIMED}."
        )
    if last < first:
        raise InputError(f"--window is {shown(text)}: it ends before it begins. HINT: {last}:{first}?")
    return Window(first, last)


def within(text: str, steps: int, least: int = 0) -> int:
    most = int(LIMITS["steps"][1])
    if not least <= steps <= most:
        raise InputError(f"--window is {shown(text)}: each number in it must be from {least} to {most:,}.")
    return steps
