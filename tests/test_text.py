"""What came from elsewhere cannot make a terminal do anything."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb\x7f", r"a\rb\x7f"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("half \ud800", r"half \ud800"),
        ("two lines\n\tand a tab", "two lines\n\tand a tab"),
        ("Zürich 東京 × ± …", "Zürich 東京 × ± …"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text: str, shown: str):
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_nothing_is_left_that_a_terminal_would_obey_and_the_rest_stays(text: str):
    shown = printable(text)
    assert printable(shown) == shown
    assert {unicodedata.category(letter) for letter in set(shown) - {"\n", "\t"}}.isdisjoint({"Cc", "Cf", "Cs"})
    shown.encode()
    if text.isprintable():
        assert shown == text
