"""One colour for one thing, on every chart, on a terminal and on the page.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart, without black and yellow: each is
visible on white and on dark. Four more were chosen to be far from them for each kind of colour-blindness.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradsync.exhibit.form import IDEAL, OURS, PUBLISHED

BLUE, ORANGE, GREEN, PINK, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
BROWN, SLATE, VIOLET, SAND = "#8F3B14", "#55557F", "#A544F2", "#BDB76B"
GREY, LIGHT_GREY, YELLOW = "#8C8C8C", "#999999", "#F0E442"

IN_ORDER = (BLUE, RED, GREEN, ORANGE, SKY, PINK, VIOLET, BROWN, SAND, SLATE)
PARTS = {
    "data": ORANGE,
    "copy": YELLOW,
    "forward": SKY,
    "backward": BLUE,
    "wait": RED,
    "wire": PINK,
    "optimizer": GREEN,
    "other": LIGHT_GREY,
}
STRATEGIES = {
    "all-reduce": BLUE,
    "ddp": RED,
    "ring": SKY,
    "reduce-broadcast": GREEN,
    "gather-scatter": ORANGE,
    "bucketed": PINK,
    "local": BROWN,
    "ps-sync": VIOLET,
    "ps-async": SAND,
    "data-parallel": SLATE,
    "none": GREY,
}
FIXED = {
    **PARTS,
    "compute": BLUE,
    "communication": PINK,
    "hidden communication": VIOLET,
    IDEAL: GREY,
    PUBLISHED: ORANGE,
    OURS: BLUE,
    **STRATEGIES,
}

LAW = re.compile(r"(?:Amdahl|Gustafson)\b.*?(?:\((?P<series>.+)\))?$")
FURTHER = re.compile(r" [×=]|,")  # begins the rest of a name: "ring × 4", "ring, 2 nodes", "ring = ddp"


def is_expected(name: str) -> bool:
    """Whether a series is an ideal or follows a law, rather than what was measured."""
    return name == IDEAL or LAW.match(name) is not None


def colours(names: Sequence[str]) -> list[str]:
    """Names without a colour of their own get that of the strategy they begin with, if it is not on the chart yet, or
    else the next free one; a law has the colour of its series."""
    found = {name: FIXED[name] for name in names if name in FIXED}
    laws = {name: match["series"] or "" for name in names if name not in found and (match := LAW.match(name))}
    others = [name for name in names if name not in found and name not in laws]
    for name in others:
        wanted = STRATEGIES.get(FURTHER.split(name)[0])
        if wanted and wanted not in found.values():
            found[name] = wanted
    free = [colour for colour in IN_ORDER if colour not in found.values()] or IN_ORDER
    for place, name in enumerate(name for name in others if name not in found):
        found[name] = free[place % len(free)]
    for name, series in laws.items():
        found[name] = found.get(series) or FIXED.get(series, GREY)
    return [found[name] for name in names]
