"""Figures by the subtraction of the HPML lab, which has epoch times only.

One worker with the same share of the batch needs T₁ for all steps of an epoch; N workers divide these steps among
them, so computing should take T₁/N, and the rest of T_N is called communication.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradsync.figures.cases import Case
from gradsync.figures.catalogue import of_time, of_traffic
from gradsync.figures.figure import FigureOf
from gradsync.figures.value import Value, difference, mean_of, ratio, scaled


@dataclass(frozen=True)
class Subtraction:
    case: Case
    alone: Case | None
    """One worker in the same place, with the same share of the batch in a step; None: there is no such run."""


def computing(pair: Subtraction) -> Value:
    return scaled(pair.alone.value(of_time.EPOCH), 1 / pair.case.figures.world_size) if pair.alone else None


def communicating(pair: Subtraction) -> Value:
    return difference(pair.case.value(of_time.EPOCH), computing(pair))


def communication_share(pair: Subtraction) -> Value:
    return difference(1.0, ratio(computing(pair), pair.case.value(of_time.EPOCH)))


def bandwidth(pair: Subtraction) -> Value:
    """None where no time is left."""
    rest = communicating(pair)
    return ratio(pair.case.value(of_traffic.FORMULA_EPOCH), rest) if (mean_of(rest) or 0.0) > 0 else None


COMPUTE_LEFT = FigureOf(
    "compute-by-subtraction",
    "compute by subtraction",
    computing,
    "the epoch of one worker with the same share, divided by the number of workers",
    of_time.EPOCH.unit,
)
COMMUNICATION_LEFT = FigureOf(
    "communication-by-subtraction",
    "communication by subtraction",
    communicating,
    "the rest of the epoch",
    of_time.EPOCH.unit,
)
SHARE_LEFT = FigureOf(
    "communication-share-by-subtraction",
    "communication share by subtraction",
    communication_share,
    "the rest of the epoch, as a share of it",
    form=of_time.COMMUNICATION_SHARE.form,
)
BANDWIDTH_LEFT = FigureOf(
    "bandwidth-by-subtraction",
    "bandwidth used by subtraction",
    bandwidth,
    f"{of_traffic.FORMULA_EPOCH.title} over the {COMMUNICATION_LEFT.title}",
    of_traffic.BANDWIDTH.unit,
)
