"""What the rows of the ranks mean for a strategy, with rows of our choice."""

from __future__ import annotations

from typing import Any

import pytest

from gradsync.record.certificate import Certificate, Check, Verdict
from gradsync.study.checks import BITS, BYTES, DISTANCE, HOOKS, START, STATE, checks

ROUNDING = 1e-8
FINE: dict[str, Any] = {
    "kind": "conformance",
    "start_sha256": "same",
    "wire_bytes": [64_000.0, 64_000.0],
    "closed_form": [62_800.0, 62_800.0],
    "resumed_distance": 0.0,
    "resumed_error": "",
    "hooks_stacked": [],
    "hooks_left": [],
    "messages_after": 0,
    "loops": [],
}
LOOPS = ("plain", "clipped", "compiled")


def certificate(distance: float | None = 1e-15, same: bool = True, verdict: Verdict = "exact") -> Certificate:
    return Certificate(reference="local", distance=distance, same_bits=same, verdict=verdict, differs="")


def found(first: dict[str, Any], **more: Any) -> dict[str, Check]:
    return {check.name: check for check in checks(certificate(**more), [{**FINE, **first}, FINE], ROUNDING, False)}


def test_what_is_fine_holds_in_every_row():
    assert {name: check.holds for name, check in found({}).items()} == dict.fromkeys(
        (START, BITS, DISTANCE, BYTES, STATE, HOOKS), True
    )


@pytest.mark.parametrize(
    ("first", "name", "words"),
    [
        ({"start_sha256": "other"}, START, "attach leaves 2 different models"),
        ({"wire_bytes": [128_000.0, 64_000.0]}, BYTES, "rank 0 sent 128,000 bytes a step, in closed form 62,800"),
        ({"wire_bytes": [64_000.0, 9.0]}, BYTES, "rank 0 received 9 bytes a step"),
        ({"resumed_distance": 1e-3}, STATE, "is 1.0e-03 from one without a break: state_dict leaves something out"),
        ({"resumed_distance": None}, STATE, "a resumed training is NaN or infinite"),
        ({"resumed_error": "load_state_dict raised KeyError: 'm'"}, STATE, "raised KeyError"),
        ({"hooks_left": list("abcde")}, HOOKS, "detach leaves a, b, c and 2 more"),
        ({"hooks_stacked": ["0: forward hooks"]}, HOOKS, "attaching twice adds more: 0: forward hooks"),
        ({"messages_after": 4}, HOOKS, "after detach, 4 messages were still sent"),
    ],
)
def test_what_is_wrong_is_told_by_its_row_alone(first: dict[str, Any], name: str, words: str):
    rows = found(first)
    assert [check.name for check in rows.values() if check.holds is False] == [name]
    assert words in rows[name].found


def loops(*tried: dict[str, Any], **more: Any) -> list[tuple[bool | None, str]]:
    """Of rank 0, the first ways in order; rank 1, and the ways after them, are fine."""
    good = [{"name": name, "distance": 1e-15, "error": "", "left_out": ""} for name in LOOPS]
    first = [{**each, **own} for each, own in zip(good, [*tried, {}, {}, {}], strict=False)]
    given: dict[str, Any] = {"certificate": certificate(), "lossy": False, **more}
    rows: list[Any] = [{**FINE, "loops": first}, {**FINE, "loops": good}]
    found = [check for check in checks(given["certificate"], rows, ROUNDING, given["lossy"]) if check.in_loop]
    assert [check.name for check in found] == list(LOOPS)
    return [(check.holds, check.found) for check in found]


FAR, RAISED, NOT_FINITE = {"distance": 0.5}, {"distance": None, "error": "raised KeyError: 'm'"}, {"distance": None}


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (FAR, "5.0e-01: rounding alone is below 1.0e-08"),
        (RAISED, "raised KeyError: 'm'"),
        (NOT_FINITE, "the parameters are NaN or infinite"),
    ],
)
def test_a_loop_that_is_wrong_is_told_by_its_row_alone(own: dict[str, Any], words: str):
    assert loops({}, own) == [(True, "1.0e-15"), (False, words), (True, "1.0e-15")]


def test_what_breaks_a_plain_loop_breaks_the_others_and_is_told_once():
    assert [holds for holds, _ in loops(FAR, FAR, FAR)] == [False, None, None]
    assert loops(RAISED)[2] == (None, 'not judged, as "plain" does not hold')
    wrong = certificate(1e-3, verdict="wrong")
    assert loops(FAR, RAISED, certificate=wrong) == [(None, f'not judged, as "{DISTANCE}" does not hold')] * 3


def test_a_loop_that_cannot_be_tried_or_is_not_meant_to_be_equal_is_not_judged():
    left_out = {"distance": None, "left_out": "no compiler"}
    assert loops({}, {}, left_out)[2] == (None, "no compiler")
    by_design = certificate(0.5, verdict="approximate by design")
    assert loops(FAR, certificate=by_design, lossy=True)[0] == (None, "5.0e-01, approximate by design")
    assert loops(RAISED, certificate=by_design, lossy=True)[0][0] is False, "an error is not meant by any design"


def test_a_model_that_hides_mistakes_does_not_hide_those_in_loops():
    """BatchNorm makes the model approximate by design, not the strategy."""
    assert loops({}, FAR, certificate=certificate(0.5, verdict="approximate by design"))[1][0] is False


def test_what_cannot_be_said_is_neither():
    assert found({"closed_form": None})[BYTES].found == "gradient_traffic declares none"
    assert found({"wire_bytes": None})[BYTES].holds is None
    assert found({}, verdict="approximate by design", distance=0.5)[DISTANCE].holds is None
    (same, near) = checks(certificate(), [], ROUNDING, False)
    assert (same.name, near.name) == (BITS, DISTANCE)


def test_the_parameters_are_judged_as_in_the_verdict():
    assert found({}, distance=1e-3, verdict="wrong")[DISTANCE].holds is False
    assert found({}, distance=None, verdict="wrong")[DISTANCE].holds is False
    assert found({}, same=False, verdict="wrong")[BITS].holds is False
    assert checks(certificate(same=False), [], ROUNDING, lossy=True)[0].holds is True


def test_a_certificate_with_a_check_that_does_not_hold_is_not_passed():
    fine = certificate()
    assert fine.passed and fine.same_model
    fine.checks = checks(fine, [{**FINE, "hooks_left": ["0: forward hooks"]}], ROUNDING, False)
    assert fine.same_model and not fine.passed
