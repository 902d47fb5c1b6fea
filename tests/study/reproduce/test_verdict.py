"""Whether figures bear a claim out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.study.reproduce.published import Claim, RunRank
from gradsync.study.reproduce.verdict import Finding, judge

A, B, C = map(RunRank, "abc")
FASTER = Claim("A is faster than B.", "step", "rising", (A, B))


def judged(
    claim: Claim, *ours: float | None, published: tuple[float, ...] = (), doubt: str = "", noise: float = 0.03
) -> Finding:
    def among(values: tuple[float | None, ...], place: RunRank) -> float | None:
        return dict(zip(claim.places, values, strict=False)).get(place)

    return judge(claim, lambda place: among(ours, place), lambda place: among(published, place), doubt, noise)


def test_the_ratio_stands_beside_the_published_one():
    found = judged(FASTER, 1.0, 1.9, published=(0.99, 1.74))
    assert str(found) == "A is faster than B: reproduced, 1.9×, published 1.76×."


@pytest.mark.parametrize(
    ("values", "verdict"), [((1.0, 1.01), "undecided"), ((1.0, 0.9), "not reproduced"), ((1.0, 1.2), "reproduced")]
)
def test_what_is_within_noise_is_not_decided(values: tuple[float, ...], verdict: str):
    assert judged(FASTER, *values).verdict == verdict


def test_a_row_that_rises_as_a_whole_may_be_level_in_places():
    claim = replace(FASTER, places=(A, B, C))
    assert judged(claim, 1.0, 0.99, 1.2).verdict == "reproduced"
    assert judged(claim, 1.0, 0.9, 1.2).verdict == "not reproduced"
    assert judged(claim, 1.0, 1.01, 1.02).verdict == "undecided"


def test_accuracy_is_told_in_points():
    claim = Claim("Averaging lowers accuracy.", "accuracy", "rising", (A, B))
    assert judged(claim, 0.8843, 0.903).ours == "+1.87 points"
    assert judged(claim, 0.9030, 0.9031, noise=0.004).verdict == "undecided"


def test_alike_about_and_different():
    alike = Claim("They go alike.", "step", "alike", (A, B), within=0.1)
    assert [judged(alike, 1.0, x).verdict for x in (1.05, 1.2)] == ["reproduced", "not reproduced"]
    thrice = Claim("Three times.", "sent", "ratio", (A, B), about=3.0, within=0.1)
    assert [judged(thrice, x, 1.0).verdict for x in (3.2, 2.0)] == ["reproduced", "not reproduced"]
    differ = Claim("They differ.", "finish", "differ", (A, B), within=0.01)
    assert [judged(differ, 1.0, x, noise=0.005).verdict for x in (1.05, 1.0)] == ["reproduced", "not reproduced"]


def test_a_difference_must_be_more_than_noise():
    assert [judged(FASTER, 1.0, 1.05, noise=noise).verdict for noise in (0.03, 0.1)] == ["reproduced", "undecided"]
    assert judged(FASTER, 55.4, 55.5, noise=0.0).verdict == "reproduced"
    alike = Claim("They go alike.", "step", "alike", (A, B), within=0.1)
    assert judged(alike, 1.0, 1.11).verdict == "undecided"  # could have been 1.09


def test_the_least_of_all_and_a_bound():
    least = Claim("A is the fastest.", "step", "least", (A, B, C))
    assert judged(least, 1.0, 1.5, 1.2).ours == "1.2×"
    values = ((1.0, 1.5, 1.2), (1.0, 1.5, 0.9), (1.0, 1.5, 1.01))
    assert [judged(least, *each).verdict for each in values] == ["reproduced", "not reproduced", "undecided"]
    below = Claim("Not 8 times as fast.", "total", "below", (A, B), about=8.0)
    assert [judged(below, x, 1.0).verdict for x in (3.0, 9.0)] == ["reproduced", "not reproduced"]


def test_missing_runs_and_runs_that_cannot_tell():
    missing = judged(FASTER, 1.0, None)
    assert (missing.verdict, missing.reason) == ("not run", "no figure for b")
    doubted = judged(FASTER, 1.0, 2.0, doubt="synthetic data")
    assert (doubted.verdict, doubted.ours) == ("undecided", "2×")


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=5, unique=True))
def test_a_claim_and_its_opposite_are_never_both_reproduced(values: list[float]):
    places = tuple(RunRank(str(n)) for n in range(len(values)))
    claim = replace(FASTER, places=places)
    opposite = replace(FASTER, places=places[::-1])
    verdicts = {judged(claim, *values).verdict, judged(opposite, *values[::-1]).verdict}
    assert verdicts != {"reproduced"}
