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
}


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
