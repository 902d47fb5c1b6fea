"""Values against their declarations."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.record.shape import Filled, Within, Wrong, checker


class Part(TypedDict):
    name: str
    size: Annotated[int, Within(1, 9)]


class _Later(TypedDict, total=False):
    share: Annotated[float, Within(0, 1)]


class Whole(_Later):
    kind: Literal["a", "b"]
    parts: Annotated[list[Part], Filled()]
    pairs: dict[str, tuple[str, float]]
    is_new: bool
    note: str | None
    others: list[int]


def whole(**changes: Any) -> dict[str, Any]:
    part = {"name": "x", "size": 1}
    return {
        "kind": "a",
        "parts": [part],
        "pairs": {"p": ["x", 1.5]},
        "is_new": True,
        "note": None,
        "others": [1],
    } | changes


def test_what_fits_is_left_as_it_is_also_what_was_not_declared():
    value = whole(later=[object], share=1)
    before = dict(value)
    checker(Whole)(value)
    assert value == before


def test_what_may_be_missing_is_null_or_empty():
    value = {name: item for name, item in whole().items() if name not in ("note", "others")}
    checker(Whole)(value)
    assert (value["note"], value["others"]) == (None, [])
    assert "share" not in value


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "c"}, "kind is 'c', not a or b"),
        ({"kind": ["a"]}, r"kind is \['a'\], not a or b"),
        ({"parts": []}, r"parts is \[\], not a list"),
        ({"parts": {}}, "parts is {}, not a list"),
        ({"parts": [{"name": "x"}]}, r"parts\[\].size is missing"),
        ({"parts": [{"name": "x", "size": True}]}, r"parts\[\].size is True, not a whole number from 1 to 9"),
        ({"parts": [{"name": "x", "size": 10}]}, r"parts\[\].size is 10, not a whole number from 1 to 9"),
        ({"parts": [{"name": "x", "size": 1.0}]}, r"parts\[\].size is 1.0"),
        ({"pairs": {"p": ["x"]}}, r"pairs{} is \['x'\], not a list of 2"),
        ({"pairs": {"p": ["x", float("nan")]}}, r"pairs{}\[1\] is nan, not a number"),
        ({"pairs": {"p": ["x", 1e308]}}, r"pairs{}\[1\] is 1e\+308, not a number"),
        ({"pairs": []}, r"pairs is \[\], not a table"),
        ({"is_new": 1}, "is_new is 1, not true or false"),
        ({"note": 5}, "note is 5, not text"),
        ({"share": -0.1}, "share is -0.1, not a number from 0 to 1"),
        ({"others": [10**5000]}, r"others\[\] is too long to show, not a whole number"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(changes: dict[str, Any], reason: str):
    with pytest.raises(Wrong, match=f"^{reason}"):
        checker(Whole)(whole(**changes))


def test_a_value_that_is_no_table_has_no_place():
    with pytest.raises(Wrong, match=r"^it is None, not a table"):
        checker(Whole)(None)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=3),
    max_leaves=10,
)


@given(ANYTHING)
def test_nothing_else_is_raised_whatever_the_value(value: Any):
    for name in ("kind", "parts", "pairs", "is_new", "note", "others", "share"):
        problem = name
        try:
            checker(Whole)(whole(**{name: value}))
        except Wrong as wrong:
            problem = str(wrong)
        assert problem.startswith(name)
