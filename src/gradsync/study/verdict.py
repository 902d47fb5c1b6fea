"""Whether our runs show what a report claims. Arithmetic only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gradsync.study.published import Claim, Place
from gradsync.study.quantities import QUANTITIES

Verdict = Literal["reproduced", "not reproduced", "undecided", "not run"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "not reproduced", "undecided", "not run")

NOISE = 0.03  # two times that differ by less are the same to us
POINTS = 0.003  # of accuracy: 10,000 test samples do not tell less apart

Values = Callable[[Place], float | None]


@dataclass(frozen=True)
class Finding:
    claim: Claim
    verdict: Verdict
    ours: str
    """The ratio it was judged by."""

    published: str
    reason: str = ""

    def __str__(self) -> str:
        facts = ", ".join(filter(None, [self.verdict, self.ours, self.published and f"published {self.published}"]))
        return f"{self.claim.text.rstrip('.')}: {facts}{f' ({self.reason})' if self.reason else ''}."


def judge(claim: Claim, ours: Values, published: Values, cannot_tell: str = "", uncertainty: float = 0.0) -> Finding:
    """``cannot_tell``: why runs of this kind show nothing about it, if so.

    ``uncertainty``: of a ratio of two of the figures, from their own spread.
    """
    values = [ours(place) for place in claim.places]
    theirs = measure(claim, [published(place) for place in claim.places])
    if any(value is None for value in values):
        missing = ", ".join(str(place) for place, value in zip(claim.places, values, strict=True) if value is None)
        return Finding(claim, "not run", "", text(claim, theirs), f"no figure for {missing}")
    found = measure(claim, values)
    if cannot_tell:
        return Finding(claim, "undecided", text(claim, found), text(claim, theirs), cannot_tell)
    verdict = decide(claim, [value for value in values if value is not None], max(NOISE, uncertainty))
    return Finding(claim, verdict, text(claim, found), text(claim, theirs))


def measure(claim: Claim, values: Sequence[float | None]) -> float | None:
    """One number for the whole: how far apart they are, as a ratio, or in points of accuracy."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if is_share(claim):
        return known[-1] - known[0]
    if claim.kind == "rising":
        return known[-1] / known[0] if known[0] else None
    if claim.kind == "ratio":
        return known[0] / known[1] if known[1] else None
    return max(known) / min(known) if min(known) > 0 else None


def is_share(claim: Claim) -> bool:
    """Differences of accuracy are told in points."""
    return claim.figure in ("accuracy", "train-accuracy") and claim.kind == "rising"


def text(claim: Claim, value: float | None) -> str:
    if value is None:
        return ""
    if is_share(claim):
        return f"{value * 100:+.2f} points"
    return f"{value:.3f}×" if 0.95 < value < 1.05 else f"{value:.3g}×"


def decide(claim: Claim, values: Sequence[float], noise: float) -> Verdict:
    if claim.kind == "rising":
        return rises(claim, values, noise)
    found = measure(claim, values)
    if found is None:
        return "undecided"
    if claim.kind == "ratio":
        enough = abs(found / claim.about - 1) <= claim.within
    elif claim.kind == "alike":
        enough = found - 1 <= claim.within
    else:
        enough = found - 1 >= claim.within
    return "reproduced" if enough else "not reproduced"


def rises(claim: Claim, values: Sequence[float], noise: float) -> Verdict:
    """Level in places is enough if it rises as a whole, and by more than noise."""
    if is_share(claim):
        steps, noise = [after - before for before, after in pairwise(values)], POINTS
        overall = values[-1] - values[0]
    else:
        steps = [after / before - 1 if before else float(after > 0) for before, after in pairwise(values)]
        noise = 0.0 if QUANTITIES[claim.figure].exact else noise
        overall = values[-1] / values[0] - 1 if values[0] else float(values[-1] > 0)
    if any(step < -noise for step in steps):
        return "not reproduced"
    return "reproduced" if overall > noise else "undecided"
