from __future__ import annotations

import pytest

from gradsync.config import RunConfig
from gradsync.config.window import Window, parse_window
from gradsync.errors import InputError


@pytest.mark.parametrize(
    ("text", "window", "of_ten", "of_thousand"),
    [
        ("2:40", Window(2, 40), (2, 10), (2, 40)),
        ("5:5", Window(5, 5), (5, 5), (5, 5)),
        ("all", Window(), (2, 10), (2, 1000)),
        ("last:100", Window(count=100), (2, 10), (901, 1000)),
    ],
)
def test_a_window_says_which_steps_are_timed(text: str, window: Window, of_ten: object, of_thousand: object):
    assert parse_window(text) == window
    assert (window.bounds(10), window.bounds(1000)) == (of_ten, of_thousand)


def test_the_first_step_is_never_timed():
    for text in ("2:40", "all", "last:3"):
        first, last = parse_window(text).bounds(1)
        assert first > last


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it must be the first and the last step"),
        ("40", "it must be the first and the last step"),
        ("2:", "it must be the first and the last step"),
        ("2:4\n", "it must be|control character"),
        ("last", "it must be the first and the last step"),
        ("²:³", "it must be the first and the last step"),
        ("1:40", "the first step is never timed"),
        ("40:2", "it ends before it begins"),
        ("last:0", "must be from 1 to"),
        ("2:9999999999", "must be from 0 to 1,000,000,000"),
        ("2:99999999999999999999", "it must be the first and the last step"),
    ],
)
def test_a_window_that_is_none_is_refused_with_what_is_allowed(text: str, reason: str):
    with pytest.raises(InputError, match=reason):
        RunConfig(window=text)


def test_the_default_is_that_of_the_reports():
    assert RunConfig().window == "2:40"
