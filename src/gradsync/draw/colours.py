"""One colour for one thing, on every chart. Ledger parts have theirs already, on the terminal.

The colours are those of Okabe and Ito, which stay apart for colour-blind readers, less black and yellow: each is seen
on white and on dark. Four more were searched to lie far from them, as seen with each kind of colour-blindness.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradsync.exhibit import IDEAL, OURS, PUBLISHED
from gradsync.report.ledger import LOOK

BLUE, ORANGE, GREEN, PINK, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
BROWN, SLATE, VIOLET, SAND = "#8F3B14", "#55557F", "#A544F2", "#BDB76B"
GREY = "#8C8C8C"

IN_ORDER = (BLUE, RED, GREEN, ORANGE, SKY, PINK, VIOLET, BROWN, SAND, SLATE)
PARTS = {part: colour for part, (_, colour) in LOOK.items()}
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
FURTHER = re.compile(r" ×|,")  # begins what else a name says: "ring × 4", "ring, 2 nodes"


def is_expected(name: str) -> bool:
    """Whether a series is what could be or what a law says, rather than what was measured."""
    return name == IDEAL or LAW.match(name) is not None


def colours(names: Sequence[str]) -> list[str]:
    """Names without a colour of their own get that of the strategy they begin with, or else the next, as long as it
    is not on the chart yet; a law has the colour of its series."""
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
