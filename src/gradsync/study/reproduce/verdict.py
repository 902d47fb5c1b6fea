"""Whether our runs show what a report claims. Arithmetic only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gradsync.study.reproduce.published import Claim, RunRank

Judgement = Literal["reproduced", "not reproduced", "undecided", "not run"]
VERDICTS: tuple[Judgement, ...] = ("reproduced", "not reproduced", "undecided", "not run")

Values = Callable[[RunRank], float | None]


@dataclass(frozen=True)
class Finding:
    claim: Claim
    verdict: Judgement
    ours: str
    """The ratio it was judged by."""

    published: str
    reason: str = ""

    def __str__(self) -> str:
        facts = ", ".join(filter(None, [self.verdict, self.ours, self.published and f"published {self.published}"]))
        return f"{self.claim.text.rstrip('.')}: {facts}{f' ({self.reason})' if self.reason else ''}."


def judge(claim: Claim, ours: Values, published: Values, cannot_tell: str = "", noise: float = 0.0) -> Finding:
    """``cannot_tell``: why runs of this kind cannot decide it; empty if they can.

    ``noise``: how much our figures may differ by chance: as a share of them, or in points of accuracy.
    """
    values = [ours(place) for place in claim.places]
    theirs = text(claim, measure(claim, [published(place) for place in claim.places]))
    if any(value is None for value in values):
        missing = ", ".join(str(place) for place, value in zip(claim.places, values, strict=True) if value is None)
        return Finding(claim, "not run", "", theirs, cannot_tell or f"no figure for {missing}")
    own = text(claim, measure(claim, values))
    if cannot_tell:
        return Finding(claim, "undecided", own, theirs, cannot_tell)
    verdict = decide(claim, [value for value in values if value is not None], noise)
    return Finding(claim, verdict, own, theirs)


def measure(claim: Claim, values: Sequence[float | None]) -> float | None:
    """One number for the claim: how far apart the values are, as a ratio, or in points of accuracy."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if is_share(claim):
        return known[-1] - known[0]
    one, other = {
        "rising": (known[-1], known[0]),
        "least": (min(known[1:]), known[0]),
        "ratio": (known[0], known[1]),
        "below": (known[0], known[1]),
    }.get(claim.kind, (max(known), min(known)))
    return one / other if other > 0 else None


def is_share(claim: Claim) -> bool:
    """Whether the difference is in points: differences in accuracy are."""
    return claim.figure in ("accuracy", "train-accuracy") and claim.kind == "rising"


def text(claim: Claim, value: float | None) -> str:
    if value is None:
        return ""
    if is_share(claim):
        return f"{value * 100:+.2f} points"
    return f"{value:.3f}×" if 0.95 < value < 1.05 else f"{value:.3g}×"


def decide(claim: Claim, values: Sequence[float], noise: float) -> Judgement:
    """Undecided where noise could have reversed it."""
    if claim.kind == "rising":
        return rises(claim, values, noise)
    found = measure(claim, values)
    if found is None:
        return "undecided"
    by_how_much = {
        "least": found - 1,
        "alike": claim.within - (found - 1),
        "differ": found - 1 - claim.within,
        "ratio": claim.within - abs(found / claim.about - 1),
        "below": claim.about / found - 1,
    }[claim.kind]
    if noise and abs(by_how_much) <= noise:
        return "undecided"
    return "reproduced" if by_how_much > 0 or (by_how_much == 0 and claim.kind != "least") else "not reproduced"


def rises(claim: Claim, values: Sequence[float], noise: float) -> Judgement:
    """The values may stay level in places if they rise as a whole, by more than noise."""

    def growth(before: float, after: float) -> float:
        if is_share(claim):
            return after - before
        return after / before - 1 if before else float(after > 0)

    if any(growth(*pair) < -noise for pair in pairwise(values)):
        return "not reproduced"
    return "reproduced" if growth(values[0], values[-1]) > noise else "undecided"
