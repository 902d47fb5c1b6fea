"""What came from elsewhere cannot make a terminal do anything."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsync.text import abbreviated, printable, size_text


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


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (12, "12 B"),
        (999, "999 B"),
        (1000, "1 KB"),
        (31_400, "31.4 KB"),
        (999_950, "1 MB"),
        (1_500_000, "1.5 MB"),
        (36_924_456, "36.9 MB"),
        (4 * 10**9, "4 GB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_sizes_have_their_units(count: int, words: str):
    assert size_text(count) == words


def test_a_long_number_is_abbreviated():
    assert [abbreviated(value) for value in (0.0, 617_250.0, -2.5e6)] == ["0", "617k", "-2.5M"]
