"""Figures of the catalogue as columns of tables, and on the axes of charts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gradsync
from exhibited import steps_of
from gradsync.exhibit.columns import axis, height, heights
from gradsync.figures.cases import one_by_one
from gradsync.figures.catalogue import CATALOGUE
from gradsync.figures.catalogue.of_learning import ACCURACY, TRAIN_LOSS
from gradsync.figures.catalogue.of_time import FINISH, STEP, WIRE_EPOCH
from gradsync.figures.catalogue.of_traffic import SENT_STEP
from gradsync.figures.value import Spread

SOURCE = Path(gradsync.__file__).parent


def test_an_axis_has_the_title_and_the_unit_of_its_figure():
    assert axis(STEP).heading == "step (s)"
    assert axis(STEP).zero and not axis(STEP).log and axis(STEP, log=True).log
    assert axis(ACCURACY).heading == "accuracy (%)"
    assert not axis(ACCURACY).zero and not axis(TRAIN_LOSS).zero


def test_rows_have_the_figures_in_the_units_of_their_axes(tmp_path: Path):
    (case,) = one_by_one([steps_of(tmp_path, "ddp", 2, 0.25)])
    found = heights(case, ACCURACY, SENT_STEP, STEP)
    assert found == {"accuracy": pytest.approx(50.0), "sent-step": pytest.approx(0.008), "step": pytest.approx(0.25)}
    assert heights(case, FINISH, rank=1) == {"finish": pytest.approx(3.0)}
    assert height(Spread(0.5, 0.1), ACCURACY) == 50.0
    assert height(None, ACCURACY) is None
    assert axis(ACCURACY).field in found


def test_no_column_repeats_the_title_of_a_figure():
    """Its unit and its format would not change with the figure."""
    titles = {figure.title for figure in CATALOGUE.values()}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Column":
                name = node.args[0] if node.args else None
                repeats = isinstance(name, ast.Constant) and name.value in titles
                assert not repeats, (
                    f"{path.name}:{node.lineno}: column(...) of the figure {ast.unparse(node.args[0])}"
                )
    assert "α" in titles


def test_no_axis_repeats_the_title_and_the_unit_of_a_figure():
    """It would not change with the figure."""
    known = {(figure.title, figure.bare_unit) for figure in CATALOGUE.values() if figure.bare_unit}
    for path in (*(SOURCE / "exhibit").rglob("*.py"), *(SOURCE / "study").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Axis":
                written = tuple(item.value for item in node.args[1:3] if isinstance(item, ast.Constant))
                assert written not in known, f"{path.name}:{node.lineno}: axis(...) of the figure {written[0]}"
    assert (WIRE_EPOCH.title, WIRE_EPOCH.unit) in known
