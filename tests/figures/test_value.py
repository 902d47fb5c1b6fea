"""How numbers are written, in every medium alike, and the arithmetic of what is uncertain."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradsync
from gradsync.figures.value import (
    PRECISE,
    Spread,
    Value,
    deviation_of,
    difference,
    mean_of,
    over_repeats,
    percent,
    ratio,
    scaled,
    standard_error,
    written,
)

SOURCE = Path(gradsync.__file__).parent


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (None, "", "–"),
        ("ddp", ".2f", "ddp"),
        (1234, "", "1,234"),
        (1234.5, "", "1,234"),
        (123.4, "", "123"),
        (12.34, "", "12.3"),
        (1.234, "", "1.23"),
        (0.0, "", "0.00"),
        (1.23456, PRECISE, "1.235"),
        (0.5, ".1%", "50.0%"),
        (1234567.0, ",.0f", "1,234,567"),
        (Spread(1.234, 0.056), ".2f", "1.23 ± 0.06"),
        (Spread(0.5, 0.02), ".0%", "50% ± 2%"),
        (Spread(0.0037, 0.00092), "", "0.0037 ± 0.0009"),
        (Spread(0.07, 0.0057), "", "0.070 ± 0.006"),
        (Spread(3e-5, 1e-6), "", "3e-05 ± 1e-06"),
    ],
)
def test_how_a_value_is_written(value: Value, form: str, text: str):
    assert written(value, form) == text


def test_a_percentage_has_one_format():
    assert (percent(0.341), percent(0.341, 1), percent(0.341, signed=True)) == ("34%", "34.1%", "+34%")
    assert percent(Spread(0.5, 0.02)) == "50% ± 2%"
    found = {f"{path.name}:{node.lineno}" for path in SOURCE.rglob("*.py") for node in percentages(path)}
    assert not found, "write it with percent(...), or the text of a figure"


def percentages(path: Path) -> Iterator[ast.expr]:
    """What would write a percentage of its own: a format, or a text with a space before the sign."""
    tree = ast.parse(path.read_text())
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec and "%" in ast.unparse(node.format_spec):
            yield from [node] if path.name != "value.py" else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield from [node] if re.search(r"(^|\d) %", node.value) else []


def test_a_mean_and_its_deviation_are_written_alike_and_in_the_same_unit():
    assert written(Spread(12.345, 0.5)) == "12.3 ± 0.5"
    assert scaled(Spread(0.5, 0.1), 1e3) == Spread(500.0, 100.0)
    assert scaled("text", 1e3) == "text"
    assert scaled(None, 1e3) is None
    assert scaled(3, 1) == 3


def test_repeats_are_a_mean_with_their_deviation_and_one_run_is_a_number():
    assert over_repeats([2.0]) == 2.0
    assert over_repeats([1.0, 2.0, 3.0]) == Spread(2.0, 1.0)
    assert over_repeats([1.0, None]) is None, "a mean of those that are known would be of other runs"
    assert over_repeats([]) is None


def test_relative_deviations_of_a_ratio_add_up_as_independent_errors_do():
    found = ratio(Spread(10.0, 0.3), Spread(5.0, 0.2))
    assert mean_of(found) == pytest.approx(2.0)
    assert deviation_of(found) == pytest.approx(2.0 * math.hypot(0.03, 0.04)) == pytest.approx(0.1)
    assert ratio(10.0, 4.0) == 2.5
    assert deviation_of(ratio(Spread(10.0, 0.5), 5.0)) == pytest.approx(0.1)
    assert ratio(None, 5.0) is None
    assert ratio(5.0, None) is None
    assert ratio(5.0, 0.0) is None


def test_deviations_of_a_difference_add_up_as_independent_errors_do():
    assert difference(Spread(10.0, 0.3), Spread(4.0, 0.4)) == Spread(6.0, pytest.approx(0.5))
    assert difference(10.0, Spread(4.0, 0.4)) == Spread(6.0, pytest.approx(0.4))
    assert difference(3.0, 1.0) == 2.0
    assert difference(None, 1.0) is difference(1.0, None) is None


def test_the_standard_error_of_a_mean_falls_with_the_number_of_measurements():
    assert standard_error(Spread(1.0, 0.3), 9) == pytest.approx(0.1)
    assert standard_error(Spread(1.0, 0.3), 0) == 0.3
    assert standard_error(1.0, 9) is None
