"""Where the names of points go, so that none hides another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LETTER, LINE = 6.8, 13  # the size of a letter, in pixels
MARK = 6  # half of the mark, and the gap beside it
HEIGHT = 260  # of the plot


class LabelPlace(NamedTuple):
    """Where a name goes beside its point: pixels to the right and down, and the alignment of the text."""

    dx: float
    dy: float
    align: str


RIGHT, LEFT = LabelPlace(MARK + 3, 0, "left"), LabelPlace(-MARK - 3, 0, "right")
ABOVE, BELOW = LabelPlace(0, -MARK - 8, "center"), LabelPlace(0, MARK + 8, "center")
DIAGONAL = [LabelPlace(dx, dy, align) for dx, align in ((MARK, "left"), (-MARK, "right")) for dy in (-LINE, LINE)]
PLACES = [RIGHT, LEFT, ABOVE, BELOW, *DIAGONAL]


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        aside = self.right <= other.left or other.right <= self.left
        return not (aside or self.bottom <= other.top or other.bottom <= self.top)


def places(names: Sequence[str], points: Sequence[tuple[float, float]], width: float) -> Iterator[LabelPlace | None]:
    """Each name's first free place; ``points`` are shares of the plot's width and height, from the lower left."""
    centres = [(x * width, (1 - y) * HEIGHT) for x, y in points]
    taken = [Box(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in centres]
    for name, (x, y) in zip(names, centres, strict=True):
        for place in PLACES:
            wanted = box(name, x, y, place)
            if wanted.left >= 0 and wanted.right <= width and not any(map(wanted.meets, taken)):
                taken.append(wanted)
                yield place
                break
        else:
            yield None


def box(name: str, x: float, y: float, place: LabelPlace) -> Box:
    width = len(name) * LETTER
    left = x + place.dx - {"left": 0.0, "center": width / 2, "right": width}[place.align]
    return Box(left, y + place.dy - LINE / 2, left + width, y + place.dy + LINE / 2)


def shares(values: Sequence[float], *, log: bool, zero: bool) -> list[float]:
    """Where each lies between the two ends of its axis, from 0 to 1."""
    along = [math.log(value) for value in values] if log else list(values)
    low, high = min(along), max(along)
    if zero and not log:
        low, high = min(low, 0.0), max(high, 0.0)
    return [(value - low) / (high - low) if high > low else 0.5 for value in along]
